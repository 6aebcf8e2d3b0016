
// Filter statements by verdict; a group is hidden when all of it is.
const verdicts = [...document.querySelectorAll("input[name=verdict]")];
function show(verdict) {
  for (const part of document.querySelectorAll("[data-verdict]")) {
    part.hidden = verdict !== "" && part.dataset.verdict !== verdict;
  }
  for (const group of document.querySelectorAll(".paired, .single, .topics section, .topic")) {
    group.hidden = group.querySelector("[data-verdict]:not([hidden])") === null;
  }
}
for (const choice of verdicts) {
  choice.addEventListener("change", () => choice.checked && show(choice.value));
  if (choice.checked) show(choice.value); // a browser may restore the choice of the last visit
}
