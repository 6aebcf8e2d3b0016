// A live page: the input and interventions are sent to the server (look.js has the contract).

let asked = 0, input = null, interventions = [];

async function encoded(file) {
  const url = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}

async function explain(model) {
  const response = await fetch("explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ model, ...input, method: state.method, interventions }),
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
async function ask() {
  const number = ++asked, status = document.getElementById("live-status"), problem = document.getElementById("live-error");
  status.textContent = "Computing …";
  problem.hidden = true;
  try {
    if (!input) throw new Error("Choose a file, then Explain.");
    const found = await Promise.all(data.chosen.map(explain));
    if (number !== asked) return;
    records = found;
    if (!interventions.length) unchanged = found;
    build();
    status.textContent = interventions.length ? `Done, with ${interventions.length} ${interventions.length === 1 ? "change" : "changes"}.` : "Done.";
  } catch (error) {
    if (number !== asked) return;
    status.textContent = "";
    problem.textContent = clean(error instanceof TypeError ? "The server does not answer. Start it again with `regard serve`." : error.message);
    problem.hidden = false;
  }
  listInterventions();
}

function intervene(change) {
  if (!interventions.some((each) => JSON.stringify(each) === JSON.stringify(change))) interventions.push(change);
  ask();
}

function interventionText({ kind, layer, head, query, key }) {
  const where = `${layer}, ${head === null ? "all heads" : `head ${head}`}`;
  const tokens = (axis, at) => tokensOf(records.find((record) => mapsOf(record, layer)) ?? records[0], axis)[at] ?? at + 1;
  const maps = records.map((record) => mapsOf(record, layer)).find(Boolean);
  if (kind === "zero_head") return clean(`zero ${where}`);
  return clean(`knock out ${query === null ? "every query" : tokens(maps?.queries, query)} → ${tokens(maps?.keys, key)} in ${where}`);
}

function listInterventions() {
  document.getElementById("live-changes").replaceChildren(...interventions.map((each, at) => h("li", {}, interventionText(each), " ",
    button("Remove", () => { interventions.splice(at, 1); ask(); }, { "aria-label": `Remove: ${interventionText(each)}` }))));
}

function live() {
  const form = document.getElementById("live"), kind = records[0]?.image ? "image" : records[0]?.sound ? "sound" : "text";
  const text = h("textarea", { rows: 3, spellcheck: "false" }), file = h("input", { type: "file", accept: kind === "image" ? "image/*" : "audio/*,image/*" });
  if (records[0] && kind === "text") text.value = records[0].title;
  const here = () => {
    const maps = records.map((record) => mapsOf(record, state.layer)).find(Boolean);
    return { layer: state.layer, head: maps?.heads.includes(state.head) && maps.heads[0] !== "all" ? state.head : null };
  };
  const models = data.models.map((name) => [name, clean(name)]);
  form.append(
    models.length > 1 ? h("div", { class: "look-bar" },
      select("Model", models, data.chosen[0], (name) => { data.chosen[0] = name; interventions = []; ask(); }),
      select("Beside it", [["", "none"], ...models], data.chosen[1] ?? "", (name) => { data.chosen = [data.chosen[0], ...(name ? [name] : [])]; interventions = []; ask(); })) : "",
    kind === "text" || !records.length ? h("label", { class: "field wide" }, "Text", text) : "",
    kind !== "text" || !records.length ? h("label", { class: "field" }, "Sound or image", file) : "",
    h("div", { class: "look-bar" }, h("button", { type: "submit" }, "Explain"),
      button("Zero the head", () => here().head === null ? null : intervene({ kind: "zero_head", ...here() })),
      button("Knock out the entry", () => intervene({ kind: "knock_out", ...here(), query: state.query, key: state.key })),
      button("Knock out the key", () => intervene({ kind: "knock_out", ...here(), query: null, key: state.key })),
      button("Reset", () => { interventions = []; ask(); })),
    h("ul", { id: "live-changes" }), h("p", { id: "live-status", role: "status", class: "hint" }), h("p", { id: "live-error", role: "alert", class: "wrong", hidden: true }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    interventions = [];
    if (file.files?.length) {
      input = { data: await encoded(file.files[0]) };
      data.audio = data.chosen.map(() => (file.files[0].type.startsWith("audio/") ? URL.createObjectURL(file.files[0]) : ""));
    } else input = { input: text.value };
    ask();
  });
  if (kind === "text" && records[0]) input = { input: records[0].title };
}
