"use strict";
(() => {
  const slider = document.getElementById("at");
  const rows = [...document.querySelectorAll("#days tbody tr")].reverse();
  if (!slider || !rows.length) return;
  const about = document.getElementById("about");
  const shares = (v) => { const p = 100 * v; return p === 0 || p === 100 ? `${p}%` : `${p.toPrecision(p < 0.1 ? 1 : 3)}%`; };
  const units = {
    count: (v) => (+v.toPrecision(3)).toLocaleString("en"),
    share: shares,
    number: (v) => (+v.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 }),
    seconds: (v) => v < 60 ? `${+v.toPrecision(2)} s` : v < 3600 ? `${Math.round(v / 60)} min` : v < 172800 ? `${(v / 3600).toFixed(1)} h` : `${(v / 86400).toFixed(1)} d`,
    bytes: (v) => { let u = 0; while (v >= 1024 && u < 5) { v /= 1024; u += 1; } return `${+v.toPrecision(3)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][u]}`; },
  };
  // A path has all values of its line: M at height, then level (h) and up or down (v).
  const values = (svg) => {
    const found = new Array(rows.length).fill(null);
    const [top, height] = [+svg.dataset.top, svg.viewBox.baseVal.height];
    let [x, y] = [0, 0];
    for (const [, letter, first, second] of svg.firstElementChild.getAttribute("d").matchAll(/([Mvh])(-?\d+)(?: (\d+))?/g)) {
      if (letter === "M") [x, y] = [+first, +second];
      else if (letter === "v") y += +first;
      else for (const end = x + +first; x < end; x += 1) found[x] = top * (1 - y / height);
    }
    return found;
  };
  const lines = [...document.querySelectorAll("svg.line")].map((svg) => {
    return { svg, now: svg.closest(".small").querySelector(".now"), known: null };
  });
  const show = (at) => {
    const root = document.documentElement.style;
    root.setProperty("--at", (at + 0.5) / rows.length);
    root.setProperty("--cursor", "block");
    const cells = rows[at].cells;
    about.replaceChildren(...cells[0].cloneNode(true).childNodes, `: ${cells[cells.length - 1].textContent}, ${cells[1].textContent}`);
    slider.setAttribute("aria-valuetext", cells[0].textContent);
    for (const line of lines) {
      line.known ??= values(line.svg);
      const value = line.known[at];
      line.now.textContent = value === null ? "–" : units[line.svg.dataset.unit](value);
    }
  };
  slider.closest(".cursor").hidden = false;
  slider.addEventListener("input", () => show(+slider.value));
  document.addEventListener("pointerdown", follow);
  document.addEventListener("pointermove", (event) => { if (event.buttons || event.pointerType === "mouse") follow(event); });
  function follow(event) {
    const svg = event.target.closest && event.target.closest("svg.line, svg.strip");
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const at = Math.min(rows.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * rows.length)));
    if (at !== +slider.value || !about.textContent) { slider.value = at; show(at); }
  }
})();
