// Another choice of weights: every word has the shades and the notes of all of them.
const words = [...document.querySelectorAll(".sentences .word")];
const told = document.querySelector(".told");

function weigh(place) {
  for (const word of words) {
    word.style.setProperty("--times", word.dataset.times.split(" ")[place]);
    word.title = `${word.textContent}: ${word.dataset.notes.split("|")[place]}${word.dataset.after ?? ""}`;
  }
}
for (const choice of document.querySelectorAll("input[name=way]")) {
  const show = () => choice.checked && weigh(Number(choice.value));
  choice.addEventListener("change", show);
  show(); // a browser may come back to the choice of the last visit
}

// The note on the word that is pointed at or tapped: a title alone is out of reach on a phone.
document.querySelector(".sentences").addEventListener("pointerover", (event) => {
  if (event.target.matches(".word")) told.textContent = event.target.title;
});
