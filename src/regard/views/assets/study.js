
// Pointing at a variant lights it in every chart.
let litVariant = null;
document.addEventListener("pointerover", (event) => {
  const variant = event.target.closest("[data-variant]")?.dataset.variant ?? null;
  if (variant === litVariant) return;
  litVariant = variant;
  document.body.classList.toggle("lit", variant !== null);
  for (const part of document.querySelectorAll("[data-variant]")) {
    part.classList.toggle("on", part.dataset.variant === variant);
  }
});
