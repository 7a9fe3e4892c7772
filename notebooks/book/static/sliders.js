// Plotly's own sliders over a grid of settings: each combination of positions has its state, and every slider can be
// moved with the keyboard.
window.bookSliders = (() => {
  "use strict";
  const read = (pool, part) => Object.fromEntries(Object.entries(part).map(([key, number]) => [key, pool[number]]));

  function choose(box) { // the state of the sliders' present positions, as the figure that is drawn
    const { axes, pool, states } = box.figure.grid;
    const index = axes.reduce((sum, axis, i) => sum * axis.texts.length + box.positions[i], 0);
    const state = states[index], layout = read(pool, state.layout);
    layout.sliders = box.sliders.map((slider, i) => ({ ...slider, active: box.positions[i] }));
    Object.assign(box.figure, { data: state.data.map((trace) => read(pool, trace)), layout });
    if (layout.meta && layout.meta.alt) box.setAttribute("aria-label", layout.meta.alt);
    const story = box.closest(".slider-figure").querySelector(".slider-story");
    if (story && state.html !== undefined) story.innerHTML = pool[state.html];
  }

  function prepare(box) {
    box.sliders = box.figure.layout.sliders;
    box.positions = box.sliders.map((slider) => slider.active);
    choose(box);
  }

  function move(box, number, position) {
    const last = box.figure.grid.axes[number].texts.length - 1;
    const wanted = Math.min(Math.max(position, 0), last);
    if (wanted === box.positions[number]) return;
    box.positions[number] = wanted;
    choose(box);
    if (!box.asked) {
      box.asked = true;
      requestAnimationFrame(() => { box.asked = false; window.bookFigures.show(box); });
    }
  }

  const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 2, PageDown: -2, Home: -1e9, End: 1e9 };

  function dress(box, first) {
    const groups = box.querySelectorAll(".slider-group");
    groups.forEach((group, i) => {
      const axis = box.figure.grid.axes[i], now = box.positions[i];
      const marks = { tabindex: 0, role: "slider", "aria-label": axis.name, "aria-valuemin": 0 };
      Object.assign(marks, { "aria-valuemax": axis.texts.length - 1, "aria-valuenow": now, "aria-valuetext": axis.texts[now] });
      Object.entries(marks).forEach(([name, value]) => group.setAttribute(name, value));
      if (group.keys) return;
      group.keys = true;
      group.addEventListener("keydown", (event) => {
        if (!(event.key in STEPS)) return;
        event.preventDefault();
        move(box, i, box.positions[i] + STEPS[event.key]);
      });
    });
    if (first)
      box.on("plotly_sliderchange", ({ slider, step }) => {
        const number = box.figure.grid.axes.findIndex((axis) => `${axis.name}: ` === slider.currentvalue.prefix);
        move(box, number, step._index);
      });
  }

  return { prepare, dress };
})();
