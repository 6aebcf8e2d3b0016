// A live page: the input and changes of attention are sent to the server (look.js has the contract).

let asked = 0, input = null, interventions = [], exact = [];
const part = (name) => document.getElementById(`live-${name}`);

async function encoded(file) {
  const url = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}

async function explain(model, method) {
  const response = await fetch("explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, ...input, method, heads: exact, interventions }),
  });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  let detail = text;
  try {
    detail = JSON.parse(text).detail ?? text;
  } catch { /* a plain text */ }
  const message = Array.isArray(detail) ? detail.map((each) => each.msg ?? JSON.stringify(each)).join("; ") : String(detail);
  throw new Error(`${message} (status ${response.status})`);
}

// Ask for the records of all models; answers to an earlier question are dropped.
async function ask(method = null) {
  const number = ++asked, count = interventions.length;
  part("status").textContent = "Computing …";
  part("error").hidden = true;
  listInterventions();
  try {
    if (!input) throw new Error("Type a text or choose a file, then Explain.");
    const found = await Promise.all(data.chosen.map((model) => explain(model, method)));
    if (number !== asked) return;
    records = found;
    if (!count) unchanged = found;
    build();
    part("status").textContent = count ? `Done, with ${count} ${count === 1 ? "change" : "changes"}.` : "Done.";
  } catch (error) {
    if (number !== asked) return;
    part("status").textContent = "";
    part("error").textContent = clean(error instanceof TypeError ? "The server does not answer. Start it again with `regard serve`." : error.message);
    part("error").hidden = false;
  }
  listInterventions();
}

// The chosen layer and head; no head where the map is of all heads.
function here() {
  const maps = records.map((record) => mapsOf(record, state.layer)).find(Boolean);
  return maps && { layer: state.layer, head: maps.heads.includes(state.head) && state.head !== "all" ? state.head : null };
}

function intervene(change) {
  if (!interventions.some((each) => JSON.stringify(each) === JSON.stringify(change))) interventions.push(change);
  ask();
}

const VERBS = { zero_head: "zero", mean_head: "average over the keys:", knock_out: "knock out" };
function interventionText({ kind, layer, head, query, key }) {
  const record = records.find((each) => mapsOf(each, layer)) ?? records[0], maps = record && mapsOf(record, layer);
  const token = (axis, at) => (maps ? tokensOf(record, axis)[at] : undefined) ?? `position ${at + 1}`;
  const edge = kind === "knock_out" ? `${query === null ? "every query" : token(maps?.queries, query)} → ${token(maps?.keys, key)} in ` : "";
  return clean(`${VERBS[kind]} ${edge}${layer}, ${head === null ? "all heads" : `head ${head}`}`);
}

function listInterventions() {
  part("changes").replaceChildren(...interventions.map((each, at) => h("li", {}, interventionText(each), " ",
    button("Remove", () => { interventions.splice(at, 1); ask(); }, { "aria-label": `Remove: ${interventionText(each)}` }))));
  part("acts").hidden = !records.length;
  for (const each of part("acts").querySelectorAll("button")) {
    each.disabled = !here() || (each.dataset.needs === "head" && here().head === null);
  }
}

// What the first model takes; everything, if the server does not say so.
function showFields(kinds) {
  const kind = kinds?.[data.chosen[0]] ?? (records[0]?.image ? "image" : records[0]?.sound ? "sound" : null);
  part("text").closest("label").hidden = kind !== null && kind !== "text";
  part("file").closest("label").hidden = kind === "text";
  part("file").accept = { sound: "audio/*", image: "image/*" }[kind] ?? "";
}

async function live() {
  const suits = (name) => !kinds || kinds[name] === taken;
  const changed = (chosen) => {
    data.chosen = chosen;
    [interventions, exact] = [[], []];
    showFields(kinds);
    if (input && chosen.every(suits)) ask();
  };
  const models = data.models.map((name) => [name, clean(name)]);
  const head = (kind) => intervene({ kind, ...here() });
  const entry = (query) => intervene({ kind: "knock_out", ...here(), query, key: state.key });
  const form = document.getElementById("live");
  let kinds = null, taken = "text";  // what the input is
  form.append(
    models.length > 1 ? h("div", { class: "look-bar" },
      select("Model", (name) => changed([name, ...data.chosen.slice(1)])).show(models, data.chosen[0]),
      select("Beside it", (name) => changed([data.chosen[0], ...(name ? [name] : [])])).show([["", "none"], ...models], data.chosen[1] ?? "")) : "",
    h("label", { class: "field wide" }, "Text", h("textarea", { id: "live-text", rows: 3, spellcheck: "false" })),
    h("label", { class: "field" }, "Sound or image", h("input", { id: "live-file", type: "file" })),
    h("div", { class: "look-bar" }, h("button", { type: "submit" }, "Explain"),
      h("span", { id: "live-acts", role: "group", "aria-label": "Change the attention", class: "look-bar", hidden: true }, h("span", { class: "field" }, "Change"),
        button("Zero the head", () => head("zero_head"), { "data-needs": "head" }),
        button("Average the head", () => head("mean_head"), { "data-needs": "head" }),
        button("Knock out the entry", () => entry(state.query)),
        button("Knock out the key", () => entry(null)),
        button("Exact map of the head", () => { exact.push(`${here().layer}.${here().head}`); ask(); }, { "data-needs": "head" }),
        button("Reset", () => { interventions = []; ask(); }))),
    h("ul", { id: "live-changes", "aria-label": "Changes" }), h("p", { id: "live-status", role: "status", class: "hint" }), h("p", { id: "live-error", role: "alert", class: "wrong", hidden: true }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    [interventions, exact] = [[], []];
    const file = part("file").closest("label").hidden ? null : part("file").files[0];
    input = file ? { data: await encoded(file) } : { input: part("text").value };
    taken = kinds?.[data.chosen[0]];
    const audio = file?.type.startsWith("audio/") ? URL.createObjectURL(file) : "";
    data.audio = data.chosen.map(() => audio);
    ask();
  });
  if (records[0] && !records[0].image && !records[0].sound) {
    part("text").value = records[0].title;
    input = { input: records[0].title };
  }
  showFields(null);
  try {
    const found = await (await fetch("models")).json();
    kinds = Object.fromEntries(found.models.map((model) => [model.name, model.input]));
    showFields(kinds);
  } catch { /* all fields stay */ }
}
