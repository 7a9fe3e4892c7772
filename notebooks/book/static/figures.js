// Draws the figures of a page: those in sight at once, the others one by one when the page is idle.
// They take the colours of the page's theme, and the width of the paper when they are printed.
(() => {
  "use strict";
  const TEXT = "#7F7F7F"; // the text colour of every figure of grpo_lib
  const INK = { light: "#3B424A", dark: "#CED6DD" };
  const NARROW = 640, PAPER = 660;
  const config = { responsive: true, displayModeBar: false, displaylogo: false };
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  let printing = false, themeOnScreen;

  const ink = () => (!printing && document.documentElement.dataset.theme === "dark" ? INK.dark : INK.light);

  function inked(part, colour) { // a copy, its text in this colour
    if (part === TEXT) return colour;
    if (Array.isArray(part)) return part.map((x) => inked(x, colour));
    if (part && typeof part === "object")
      return Object.fromEntries(Object.entries(part).map(([key, x]) => [key, inked(x, colour)]));
    return part;
  }

  function dressed(figure) { // the figure's own data is never changed
    const colour = ink(), layout = inked(figure.layout, colour);
    if (coarse && layout.dragmode === undefined) layout.dragmode = false; // a finger scrolls the page
    if (printing) Object.assign(layout, { width: PAPER });
    const data = figure.data.map((trace) => ({
      ...trace,
      ...(trace.textfont && { textfont: inked(trace.textfont, colour) }),
      ...(trace.marker && { marker: inked(trace.marker, colour) }),
    }));
    return { data: JSON.parse(JSON.stringify(data)), layout, frames: figure.frames, config };
  }

  async function show(box) { // draws it, or draws it anew
    if (!box.figure) {
      const text = box.querySelector('script[type="application/json"]');
      box.figure = JSON.parse(text.textContent);
      text.remove();
      if (box.figure.grid) window.bookSliders.prepare(box);
    }
    const { data, layout, frames } = dressed(box.figure);
    const first = !box.drawn;
    box.drawn = true;
    await (first ? Plotly.newPlot(box, { data, layout, frames, config }) : Plotly.react(box, data, layout, config));
    if (first) box.style.minHeight = "";
    if (box.figure.grid) window.bookSliders.dress(box, first);
  }

  const boxes = Array.from(document.querySelectorAll(".plotly-figure"));
  const waiting = new Set(boxes);

  function draw(box) {
    if (waiting.delete(box)) show(box).catch((error) => console.error(error));
  }

  const seen = new IntersectionObserver(
    (entries) => entries.forEach((entry) => entry.isIntersecting && draw(entry.target)),
    { rootMargin: "400px" },
  );
  boxes.forEach((box) => seen.observe(box));

  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  function drawNext() {
    const [box] = waiting;
    if (!box) return;
    draw(box);
    idle(drawNext, { timeout: 500 });
  }
  idle(drawNext, { timeout: 1500 });

  function redraw() {
    boxes.filter((box) => box.drawn).forEach((box) => show(box));
  }
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });

  function print(on) {
    if (printing === on) return;
    printing = on;
    const root = document.documentElement.dataset; // paper is white
    if (on) themeOnScreen = root.theme;
    root.theme = on ? "light" : themeOnScreen;
    if (on) Array.from(waiting).forEach(draw);
    redraw();
    if (!on) boxes.forEach((box) => box.drawn && Plotly.Plots.resize(box));
  }
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.bookFigures = { show, boxes, waiting };
})();
