
// Highlight one query–key pair in every heatmap.
const heatmaps = [...document.querySelectorAll(".heatmap.interactive")].map((svg) => ({
  svg,
  cells: [...svg.querySelectorAll(".cells rect")],
  rows: [...svg.querySelectorAll(".rows text")],
  columns: [...svg.querySelectorAll(".columns text")],
  frame: svg.querySelector(".pair"),
  text: svg.closest(".card").querySelector(".pair-text"),
}));

function highlight(index, size) {
  for (const { cells, rows, columns, frame, text } of heatmaps) {
    const cell = cells[index];
    frame.setAttribute("x", cell.getAttribute("x") - 0.5);
    frame.setAttribute("y", cell.getAttribute("y") - 0.5);
    rows.forEach((label, row) => label.classList.toggle("on", row === Math.floor(index / size)));
    columns.forEach((label, column) => label.classList.toggle("on", column === index % size));
    text.textContent = cell.querySelector("title").textContent;
  }
}

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
let current = 0;
if (heatmaps.length) {
  // Initially the last repeated word, attending to its first occurrence.
  const words = heatmaps[0].rows.map((label) => label.textContent);
  const again = words.findLastIndex((word, row) => words.indexOf(word) < row);
  if (again >= 0) highlight((current = again * words.length + words.indexOf(words[again])), words.length);
}
for (const { svg, cells, text } of heatmaps) {
  // Announced by screen readers in the focused heatmap only.
  svg.addEventListener("focus", () => text.setAttribute("aria-live", "polite"));
  svg.addEventListener("blur", () => text.removeAttribute("aria-live"));
  const size = Number(svg.dataset.columns);
  svg.addEventListener("pointerover", (event) => {
    const index = cells.indexOf(event.target);
    if (index >= 0) highlight((current = index), size);
  });
  svg.addEventListener("keydown", (event) => {
    const move = ARROWS[event.key];
    if (!move) return;
    event.preventDefault();
    const row = Math.min(Math.max(Math.floor(current / size) + move[0], 0), size - 1);
    const column = Math.min(Math.max((current % size) + move[1], 0), size - 1);
    highlight((current = row * size + column), size);
  });
}

// The table has a body for every length and head width; those of one length are shown.
const costs = document.getElementById("costs-table");
for (const choice of document.querySelectorAll("input[name=length]")) {
  const show = () => {
    if (!choice.checked) return;
    for (const body of costs.tBodies) body.hidden = body.dataset.length !== choice.value;
    document.getElementById("shown-length").textContent = choice.nextElementSibling.textContent;
  };
  choice.addEventListener("change", show);
  show(); // a browser may restore the choice of the last visit
}
