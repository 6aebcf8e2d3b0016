
// Only the statements with one verdict; a group of them goes when all of it does.
const verdicts = [...document.querySelectorAll("input[name=verdict]")];
function show(verdict) {
  for (const part of document.querySelectorAll("[data-verdict]")) {
    part.hidden = verdict !== "" && part.dataset.verdict !== verdict;
  }
  for (const group of document.querySelectorAll(".beside, .alone, .topics section, .topic")) {
    group.hidden = group.querySelector("[data-verdict]:not([hidden])") === null;
  }
}
for (const choice of verdicts) {
  choice.addEventListener("change", () => choice.checked && show(choice.value));
  if (choice.checked) show(choice.value); // a browser may come back to the choice of the last visit
}
