// What scrolls sideways can be reached with the Tab key, so that it can be scrolled without a mouse.
(() => {
  "use strict";
  const WIDE = "mjx-container, .plotly-scroll, .slider-story, .cell_output .output, .cell_output pre, .slider-story pre";
  function mark() {
    document.querySelectorAll(WIDE).forEach((part) => {
      if (part.scrollWidth > part.clientWidth + 1) part.setAttribute("tabindex", "0");
      else if (!part.matches("pre")) part.removeAttribute("tabindex");
    });
  }
  window.addEventListener("load", () => {
    const set = window.MathJax && MathJax.startup && MathJax.startup.promise;
    Promise.resolve(set).then(mark);
    setTimeout(mark, 1500); // figures are drawn by then
  });
  window.addEventListener("resize", mark);
})();
