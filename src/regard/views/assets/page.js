"use strict";
document.documentElement.classList.add("scripted");

// A button in a heading sorts the rows of each body, so that groups of rows stay together.
function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button")?.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const key = (row) => row.cells[column]?.dataset.sort ?? "";
      // Numbers before texts, unknown values last in both directions.
      const compare = (a, b) => {
        const [one, other] = [key(a), key(b)];
        if ((one === "") !== (other === "")) return one === "" ? 1 : -1;
        const difference = one - other;
        return sign * (Number.isNaN(difference) ? one.localeCompare(other) : difference);
      };
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
        body.append(...rows.sort(compare));
      }
    });
  });
}
document.querySelectorAll(".sortable").forEach(makeSortable);

// A text field hides the rows that do not contain all its words.
for (const field of document.querySelectorAll("input[data-table]")) {
  const status = field.closest(".row-filter").querySelector("[role=status]");
  const all = status.textContent;
  const bodies = [...document.getElementById(field.dataset.table).tBodies];
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const body of bodies) {
      let any = false;
      for (const row of body.rows) {
        if (row.classList.contains("group")) continue;
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        any ||= !row.hidden;
        shown += !row.hidden;
      }
      body.hidden = !any;
    }
    status.textContent = words.length ? `${shown} of ${all}` : all;
  };
  field.addEventListener("input", filter);
  if (field.value) filter(); // a browser may restore the text of the last visit
}
