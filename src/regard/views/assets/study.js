
// Hovering over a variant highlights it in every chart.
let highlighted = null;
document.addEventListener("pointerover", (event) => {
  const variant = event.target.closest("[data-variant]")?.dataset.variant ?? null;
  if (variant === highlighted) return;
  highlighted = variant;
  document.body.classList.toggle("highlighting", variant !== null);
  for (const part of document.querySelectorAll("[data-variant]")) {
    part.classList.toggle("on", part.dataset.variant === variant);
  }
});

// A map of all pairs: the pair under the pointer, or moved to by arrow keys, in words.
const VERDICTS = { b: "is better than", w: "is worse than", i: "is inconclusive against" };
for (const map of document.querySelectorAll(".map")) {
  const [svg, text] = [map.querySelector("svg"), map.querySelector(".map-text")];
  const names = JSON.parse(map.dataset.names);
  const size = Math.sqrt(map.dataset.codes.length);
  const frame = svg.querySelector(".pair");
  let current = [0, 0];
  const show = (row, column) => {
    current = [Math.min(Math.max(row, 0), size - 1), Math.min(Math.max(column, 0), size - 1)];
    [row, column] = current;
    frame.setAttribute("x", column * Number(frame.getAttribute("width")));
    frame.setAttribute("y", row * Number(frame.getAttribute("height")));
    const verdict = VERDICTS[map.dataset.codes[row * size + column]];
    text.textContent = row === column ? names[row] : `${names[row]} ${verdict ?? "was not compared with"} ${names[column]}`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    show(Math.floor((size * (event.clientY - box.top)) / box.height), Math.floor((size * (event.clientX - box.left)) / box.width));
  });
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  svg.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    show(current[0] + move[0], current[1] + move[1]);
  });
}
