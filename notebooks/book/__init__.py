"""What turns the notebooks into a site: Sphinx extensions, and the files that the pages need."""
