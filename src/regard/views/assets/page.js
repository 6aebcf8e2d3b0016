"use strict";
document.documentElement.classList.add("scripted");

// One pair of words at a time, marked in every picture.
const pictures = [...document.querySelectorAll(".heatmap")].map((svg) => ({
  svg,
  cells: [...svg.querySelectorAll(".cells rect")],
  rows: [...svg.querySelectorAll(".rows text")],
  columns: [...svg.querySelectorAll(".columns text")],
  frame: svg.querySelector(".pair"),
  text: svg.closest(".card").querySelector(".pair-text"),
}));

function mark(index, size) {
  for (const { cells, rows, columns, frame, text } of pictures) {
    const cell = cells[index];
    frame.setAttribute("x", cell.getAttribute("x") - 0.5);
    frame.setAttribute("y", cell.getAttribute("y") - 0.5);
    rows.forEach((label, row) => label.classList.toggle("on", row === Math.floor(index / size)));
    columns.forEach((label, column) => label.classList.toggle("on", column === index % size));
    text.textContent = cell.querySelector("title").textContent;
  }
}

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
let marked = 0;
if (pictures.length) {
  // To begin with, the last word that was there before, reading where it was first.
  const words = pictures[0].rows.map((label) => label.textContent);
  const again = words.findLastIndex((word, row) => words.indexOf(word) < row);
  if (again >= 0) mark((marked = again * words.length + words.indexOf(words[again])), words.length);
}
for (const { svg, cells, text } of pictures) {
  // Read aloud in the picture that is being walked through, and only there.
  svg.addEventListener("focus", () => text.setAttribute("aria-live", "polite"));
  svg.addEventListener("blur", () => text.removeAttribute("aria-live"));
  const size = Number(svg.dataset.columns);
  svg.addEventListener("pointerover", (event) => {
    const index = cells.indexOf(event.target);
    if (index >= 0) mark((marked = index), size);
  });
  svg.addEventListener("keydown", (event) => {
    const move = ARROWS[event.key];
    if (!move) return;
    event.preventDefault();
    const row = Math.min(Math.max(Math.floor(marked / size) + move[0], 0), size - 1);
    const column = Math.min(Math.max((marked % size) + move[1], 0), size - 1);
    mark((marked = row * size + column), size);
  });
}

// The table has a body for every length and width of heads; those of one length are shown.
const costs = document.getElementById("costs-table");
for (const choice of document.querySelectorAll(".lengths input")) {
  const show = () => {
    if (!choice.checked) return;
    for (const body of costs.tBodies) body.hidden = body.dataset.length !== choice.value;
    document.getElementById("shown-length").textContent = choice.nextElementSibling.textContent;
  };
  choice.addEventListener("change", show);
  show(); // a browser may come back to the choice of the last visit
}

// Sorting orders the rows within every body: it outlasts a change of length, and keeps widths apart.
const headings = costs ? [...costs.tHead.rows[0].cells] : [];
headings.forEach((heading, column) => {
  heading.querySelector("button")?.addEventListener("click", () => {
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.sort;
    const compare = (a, b) => (column ? key(a) - key(b) : key(a).localeCompare(key(b)));
    for (const body of costs.tBodies) {
      const rows = [...body.rows].sort(compare);
      body.append(...(ascending ? rows : rows.reverse()));
    }
  });
});
