"use strict";
(() => {
  const box = document.getElementById("filter");
  if (!box) return;
  const rows = [...document.querySelectorAll("table.filtered tbody tr")];
  const cards = [...document.querySelectorAll("[data-feature]")];
  const named = [...cards.map((card) => [card, card.dataset.feature]), ...rows.map((row) => [row, row.cells[0].textContent])];
  const found = document.getElementById("found");
  box.closest(".filter").hidden = false;
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLowerCase();
    let shown = 0;
    for (const [element, name] of named) {
      element.hidden = !name.toLowerCase().includes(wanted);
      shown += element.hidden ? 0 : 1;
    }
    found.textContent = wanted ? `${shown} of ${named.length}` : "";
  });
})();
