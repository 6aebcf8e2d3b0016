
// Pointing at an arm lights it in every chart.
let litArm = null;
document.addEventListener("pointerover", (event) => {
  const arm = event.target.closest("[data-arm]")?.dataset.arm ?? null;
  if (arm === litArm) return;
  litArm = arm;
  document.body.classList.toggle("lit", arm !== null);
  for (const part of document.querySelectorAll("[data-arm]")) {
    part.classList.toggle("on", part.dataset.arm === arm);
  }
});
