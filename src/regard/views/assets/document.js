// Select the weights shown: every word has the shades and notes of all of them.
const words = [...document.querySelectorAll(".sentences .word")];
const note = document.querySelector(".word-note");

function showWeights(index) {
  for (const word of words) {
    word.style.setProperty("--relative", word.dataset.relative.split(" ")[index]);
    word.title = `${word.textContent}: ${word.dataset.notes.split("|")[index]}${word.dataset.drop ?? ""}`;
  }
}
for (const choice of document.querySelectorAll("input[name=view]")) {
  const show = () => choice.checked && showWeights(Number(choice.value));
  choice.addEventListener("change", show);
  show(); // a browser may restore the choice of the last visit
}

// The note of the hovered or tapped word: touch screens do not show titles.
document.querySelector(".sentences").addEventListener("pointerover", (event) => {
  if (event.target.matches(".word")) note.textContent = event.target.title;
});
