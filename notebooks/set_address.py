"""Write the repository's address wherever it is needed.

    python notebooks/set_address.py OWNER/NAME    # after a fork
    python notebooks/set_address.py               # derive again

The address stands in pyproject.toml (Repository).  From it come the links
and badges of README.md and the notebooks, the line that installs grpo_lib
on Colab, and CITATION.cff.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = r"[\w.-]+/[\w-]+(?:\.(?!git\b)[\w-]+)*"  # OWNER/NAME, no .git
HOME = re.compile(
    rf'(^Repository = "https://github\.com/)({ADDRESS})(?=")', re.M
)
# Where the address is derived; other links to GitHub are left alone.
DERIVED = re.compile(
    r"((?:colab\.research\.google\.com/github/"
    r"|git\+https://github\.com/"
    r"|git clone https://github\.com/"
    r'|repository-code: "https://github\.com/'
    r"|\[repository\]\(https://github\.com/))"
    rf"({ADDRESS})"
)


def read_address(root=ROOT):
    """OWNER/NAME as pyproject.toml has it."""
    match = HOME.search((root / "pyproject.toml").read_text("utf-8"))
    if match is None:
        raise ValueError(
            'pyproject.toml has no line Repository = "https://github.com/'
            'OWNER/NAME"; put it back under [project.urls]'
        )
    return match[2]


def derived_files(root=ROOT):
    """The files that repeat the address."""
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    return [root / "README.md", root / "CITATION.cff", *notebooks]


def derived_addresses(root=ROOT):
    """{file name: the set of addresses found in it}."""
    return {
        path.name: {
            match[2] for match in DERIVED.finditer(path.read_text("utf-8"))
        }
        for path in derived_files(root)
    }


def set_address(address, root=ROOT):
    """Write `address` everywhere; return the names of changed files."""
    if not re.fullmatch(ADDRESS, address):
        raise ValueError(
            f"an address is OWNER/NAME, got {address!r}; for "
            "https://github.com/ada/grpo-book it is ada/grpo-book"
        )
    changed = []
    pairs = [(root / "pyproject.toml", HOME)]
    pairs += [(path, DERIVED) for path in derived_files(root)]
    for path, pattern in pairs:
        old = path.read_text("utf-8")
        new = pattern.sub(lambda match: match[1] + address, old)
        if new != old:
            path.write_text(new, encoding="utf-8", newline="\n")
            changed.append(path.name)
    return changed


def main():
    """The command."""
    arguments = sys.argv[1:]
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        sys.exit(__doc__)
    try:
        address = arguments[0] if arguments else read_address()
        changed = set_address(address)
    except ValueError as error:
        sys.exit(f"set_address: {error}")
    print(f"{address}: changed {', '.join(changed) or 'nothing'}")


if __name__ == "__main__":
    main()
