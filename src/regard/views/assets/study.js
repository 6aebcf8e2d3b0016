
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
