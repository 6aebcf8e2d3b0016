// The page of `regard look`: one record, or two side by side. look_maps.js unpacks and paints maps,
// look_inputs.js shows inputs under their heat.
//
// A live page asks its own origin for every new record:
//
//   POST explain   {"model": name, "input": text}          or
//                  {"model": name, "data": base64 of a sound or an image}, and in both
//                  "method": name or null for all, "heads": ["encoder/0.1", …] whose maps are to be exact,
//                  "interventions": [{"kind": "zero_head" or "mean_head", "layer": "encoder/0", "head": "1"},
//                                    {"kind": "knock_out", "layer": …, "head": "1" or null for all,
//                                     "query": position or null for all, "key": position}]
//   200            a LookRecord as JSON. Heads are those of `LayerMaps.heads`, positions count from 0.
//                  `methods` may have some without maps: choosing one asks for it.
//   otherwise      {"detail": text or list}, or text: shown as text.
//   GET models     {"models": [{"name", "input": "text", "sound", "image" or "frames"}]}

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const data = JSON.parse(document.getElementById("look-data").textContent);
const place = document.getElementById("look");
let numbers = 0;
const unique = () => `part-${numbers++}`;
const clamp = (at, size) => Math.max(0, Math.min(at, size - 1));

// Characters that are not printed are written as escapes; a letter has at most eight marks.
function clean(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (found) => `\\u${found.codePointAt(0).toString(16).padStart(4, "0")}`)
    .replace(/(\p{M}{8})\p{M}+/gu, "$1");
}

function numberText(value) {
  if (!value) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return String(Number(value.toPrecision(3))).replace("-", "−");
  const [mantissa, power] = value.toExponential(1).split("e");
  return `${mantissa.replace("-", "−")}·10${power.replace("+", "").replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])}`;
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
const h = (tag, attributes = {}, ...children) => made(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) => made(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function button(text, act, attributes = {}) {
  const found = h("button", { type: "button", ...attributes }, text);
  found.addEventListener("click", act);
  return found;
}
function select(label, act) {
  const field = h("select");
  field.addEventListener("change", () => act(field.value));
  const show = (options, value) => {
    const written = JSON.stringify(options);
    if (field.dataset.options !== written) field.replaceChildren(...options.map(([key, text]) => h("option", { value: key }, text)));
    field.dataset.options = written;
    field.value = value;
    return node;
  };
  const node = Object.assign(h("label", { class: "field" }, label, field), { show });
  return node;
}
function section(id, title, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-heading` }, h("h2", { id: `${id}-heading` }, title), ...children);
}
const beside = (...children) => h("div", { class: "beside" }, ...children);

const state = { method: null, layer: null, head: null, query: null, key: null, heat: "input", scale: "head" };
let records = data.records, unchanged = data.records, views = [];

// What is shown: a record each and, where both have a map of the same tokens, the difference.
const mapsOf = (record, layer) => record.maps.find((maps) => maps.layer === layer && maps.method === state.method);
const heads = new WeakMap();
function mapOf(record, layer, head) {
  const maps = mapsOf(record, layer);
  const found = maps?.heads.includes(head) ? head : maps?.heads.length === 1 ? maps.heads[0] : null;
  if (found === null) return null;
  if (!heads.has(maps)) heads.set(maps, new Map());
  const known = heads.get(maps);
  if (!known.has(found)) known.set(found, new HeadMap(maps, found));
  return known.get(found);
}
const tokensOf = (record, axis) => record.axes[axis]?.tokens ?? [];
function differenceOf(layer, head) {
  if (records.length !== 2) return null;
  const [first, second] = records.map((record) => mapOf(record, layer, head));
  if (!first || !second || String(first.maps.tile_shape) !== String(second.maps.tile_shape)) return null;
  const tokens = (number, map) => JSON.stringify([map.maps.queries, map.maps.keys].map((axis) => tokensOf(records[number], axis)));
  return tokens(0, first) === tokens(1, second) ? new Difference(first, second) : null;
}
function limitOf(layer, head) {
  return Math.max(0, ...records.map((record) => mapOf(record, layer, head)?.limit ?? 0));
}
const layersOf = (record) => record.maps.filter((maps) => maps.method === state.method);
const cleaned = new WeakMap(); // the tokens of an axis as they are written
function tokenNames(record, axis) {
  const tokens = tokensOf(record, axis);
  if (!cleaned.has(tokens)) cleaned.set(tokens, tokens.map((token) => clean(token) || "␣"));
  return cleaned.get(tokens);
}
const namesOf = (record, map) => [map.maps.queries, map.maps.keys].map((axis) => tokenNames(record, axis));
const methods = () => [...new Map(records.flatMap((record) => record.methods).map((method) => [method.name, method])).values()];

// After a change of record or method, what was chosen may not exist.
function settle() {
  const known = methods().map(({ name }) => name);
  if (!known.includes(state.method)) state.method = known[0] ?? null;
  const layers = records.flatMap(layersOf), isCross = ({ queries, keys }) => queries === "output" && keys === "input";
  // At first the last layer that reads the input for the output, if there is one.
  const first = layers.find(({ layer }) => layer === state.layer) ?? layers.findLast(isCross) ?? layers[0];
  state.layer = first?.layer ?? null;
  if (first && !first.heads.includes(state.head) && first.heads.length > 1) state.head = first.heads[0];
  if (first && state.head === null) state.head = first.heads[0];
  if (!first) {
    state.heat = "input";
    return;
  }
  // At first the last row and its largest entry.
  state.query = clamp(state.query ?? Infinity, first.shape[0]);
  const row = () => records.map((record) => mapOf(record, state.layer, state.head)).find(Boolean).row(state.query);
  state.key = clamp(state.key ?? row().reduce((best, value, key, all) => (Math.abs(value) > Math.abs(all[best] || 0) ? key : best), 0), first.shape[1]);
}

function choose(change) {
  if (change.query !== undefined || change.layer !== undefined) state.heat = "row";
  Object.assign(state, change);
  settle();
  if (change.method && data.live && !records.some((record) => layersOf(record).length)) ask(change.method);
  else repaint();
}
const repaint = () => views.forEach((view) => view());

// The records, what they predict, and how faithful the method is.
function summary(record, number) {
  const before = unchanged[number], changed = before && before !== record;
  const ranked = Object.entries(record.probabilities).sort((a, b) => b[1] - a[1]);
  const right = record.reference === null ? null : record.reference === record.prediction;
  const items = [
    ["model", clean([record.model, record.description].filter(Boolean).join(": "))],
    !record.prediction && !ranked.length && !record.output_tokens.length ? null : ["prediction", h("span", {}, right === null ? "" : h("b", { class: right ? "correct" : "wrong" }, right ? "✓ correct: " : "✗ wrong: "),
      h("span", { class: "output" }, clean(record.prediction) || "(empty)"),
      changed ? h("small", {}, before.prediction === record.prediction ? " (the same without changes)" : ` (without changes: ${clean(before.prediction)})`) : null)],
    record.reference === null ? null : ["reference", h("span", { class: "output" }, clean(record.reference))],
    record.target ? ["explained", clean(record.target) + (record.completeness_error === null ? "" :
      `; completeness error of the attribution ${numberText(record.completeness_error)}`)] : null,
  ].filter(Boolean);
  const labels = h("ol", { class: "labels" }, ...ranked.slice(0, 6).map(([label, probability]) => {
    const was = changed ? before.probabilities[label] : undefined, fill = h("span", { class: "fill" });
    fill.style.setProperty("--share", probability);
    return h("li", { class: label === record.prediction ? "predicted" : null }, h("span", { class: "name" }, clean(label)),
      h("span", { class: "figure" }, numberText(probability) + (was === undefined ? "" : ` (was ${numberText(was)})`)), fill);
  }), ranked.length > 6 ? h("li", { class: "hint" }, `${ranked.length - 6} more`) : null);
  const faithful = h("dd");
  views.push(() => { faithful.textContent = faithfulness(record); });
  return h("div", { class: "record" },
    h("dl", { class: "meanings facts" }, ...items.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]), h("dt", {}, "faithfulness"), faithful),
    ranked.length ? labels : null,
    record.notes.length ? h("ul", { class: "notes hint" }, ...record.notes.map((note) => h("li", {}, clean(note)))) : null);
}

function faithfulness(record) {
  const method = methods().find(({ name }) => name === state.method), found = record.faithfulness.find((each) => each.method === state.method);
  const note = record.faithfulness_note.replace(/^not measured[:.]? */, "").replace(/\.$/, "");
  if (!found) return clean(`${method?.title ?? "Attention"}: not measured${note ? `: ${note}` : record.faithfulness.length ? " for this method" : ""}.`);
  const against = ({ mean, low, high }, better, worse) => {
    const interval = low === null || high === null ? "" : ` (${numberText(low)} to ${numberText(high)})`;
    const verdict = (low ?? mean) > 0 ? `${better} than at random` : (high ?? mean) < 0 ? `${worse} than at random` : "no difference from random detected";
    return `${verdict}, ${numberText(mean)}${interval}`;
  };
  return clean(`${method.title}, over ${found.items} inputs of ${found.data}, by the ${found.score}. Removing the highest ranked: ` +
    `${against(found.deletion_gain, "lowers it more", "lowers it less")}. Keeping only the highest ranked: ${against(found.sufficiency_gain, "it stays higher", "it stays lower")}.`);
}

// Which method, layer and head; the colour scale.
function controls() {
  const meaning = h("p", { class: "hint meaning" }), scale = h("span", { class: "ramp-line" });
  const [byMethod, byLayer, byHead] = ["Method", "Layer", "Head"].map((name) => select(name, (value) => choose({ [name.toLowerCase()]: value })));
  views.push(() => {
    const method = methods().find(({ name }) => name === state.method), shown = records.map((record) => mapsOf(record, state.layer)).find(Boolean);
    const layers = [...new Set(records.flatMap(layersOf).map(({ layer }) => layer))];
    byMethod.show(methods().map((each) => [each.name, clean(each.title) + (each.is_heuristic ? " (heuristic)" : "")]), state.method);
    for (const each of [byLayer, byHead, scale]) each.hidden = !shown;
    if (shown) {
      byLayer.show(layers.map((layer) => [layer, clean(layer)]), state.layer);
      byHead.show(shown.heads.map((head) => [head, clean(head)]), shown.heads.includes(state.head) ? state.head : shown.heads[0]);
      scale.replaceChildren(...ramp(limitOf(state.layer, state.head), method.is_signed));
    }
    meaning.textContent = method ? [method.meaning, method.is_signed ? "Signed: negative values have the second colour, and a bar or dots." : "",
      method.is_heuristic ? "A heuristic, not an exact property of the model." : ""].filter(Boolean).map(clean).join(" ") : "";
  });
  return methods().length ? h("div", { class: "look-controls" }, h("div", { class: "look-bar" }, byMethod, byLayer, byHead, scale), meaning) : null;
}

function ramp(limit, isSigned) {
  const parts = [-1, -0.6, -0.3, -0.1, 0, 0.1, 0.3, 0.6, 1].filter((part) => isSigned || part >= 0).map((part) => {
    const cell = h("span", { class: "ramp-cell" }, part < 0 ? "−" : "");
    cell.style.setProperty("background-color", shade(part, 1));
    return cell;
  });
  return [isSigned ? `−${numberText(limit)}` : "0", h("span", { class: "ramp-cells", "aria-hidden": "true" }, ...parts), numberText(limit)];
}

// A tile for every head: one stop of the keyboard, arrows choose.
function grid(name, record, mapAt) {
  const table = h("div", { role: "grid", class: "tiles", "aria-label": `Heads of ${name}` });
  const note = h("p", { class: "map-note" }), figure = h("figure", {}, h("figcaption", {}, name), h("div", { class: "scroll" }, table), note);
  let painted = "", tiles = [];
  table.addEventListener("keydown", (event) => {
    const step = ARROWS[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...table.querySelectorAll("[role=row]")].map((row) => [...row.querySelectorAll("button")]).filter((row) => row.length);
    const row = rows.findIndex((each) => each.includes(event.target));
    const next = rows[clamp(row + step[0], rows.length)];
    next[clamp(rows[row].indexOf(event.target) + step[1], next.length)].focus();
    document.activeElement.click();
  });
  views.push(() => {
    note.textContent = "";
    const limits = new Map(layersOf(record).map((maps) => [maps.layer, maps.limits])), all = Math.max(0, ...[...limits.values()].flat());
    if (painted !== (painted = `${state.method} ${state.scale} ${colours ? "" : "new"}`)) {
      const focused = tiles.findIndex(({ tile }) => tile === document.activeElement), widest = Math.max(1, ...layersOf(record).map((maps) => maps.heads.length));
      const room = Math.floor(((figure.clientWidth || 320) - 88) / widest) - 3;
      table.style.setProperty("--tile", `${Math.max(22, Math.min(room, layersOf(record).length > 6 ? 44 : 72))}px`);
      tiles = [];
      const numbers = h("div", { class: "head-names", "aria-hidden": "true" }, h("span"), ...(layersOf(record).find((maps) => maps.heads.length === widest)?.heads ?? []).map((head) => h("span", {}, clean(head))));
      table.replaceChildren(numbers, ...layersOf(record).map((maps) => h("div", { role: "row" }, h("span", { role: "rowheader" }, clean(maps.layer)), ...maps.heads.map((head) => {
        const map = mapAt(maps.layer, head);
        if (!map) return h("span", { role: "gridcell" }, "–");
        const canvas = h("canvas", { "aria-hidden": "true" });
        paintTile(canvas, map, state.scale === "all" ? all : limitOf(maps.layer, head));
        const text = `${clean(maps.layer)} head ${clean(head)}, largest entry ${numberText(map.limit)}`;
        const tile = button(canvas, () => choose({ layer: maps.layer, head }), { role: "gridcell", "aria-label": text, title: text });
        tiles.push({ tile, layer: maps.layer, head });
        return tile;
      }))));
      if (focused >= 0) tiles[clamp(focused, tiles.length)]?.tile.focus();
    }
    for (const { tile, layer, head } of tiles) {
      const isChosen = layer === state.layer && (head === state.head || mapOf(record, layer, state.head)?.head === head);
      tile.setAttribute("aria-selected", String(isChosen));
      tile.tabIndex = isChosen ? 0 : -1;
      if (isChosen) note.textContent = tile.title;
    }
    if (tiles.length && !tiles.some(({ tile }) => tile.tabIndex === 0)) tiles[0].tile.tabIndex = 0;
  });
  return figure;
}

const paneName = (number) => (records.length === 2 ? `${"AB"[number]}: ${clean(records[number].model)}` : clean(records[number].model));
const DIFFERENCE = "Difference, B − A";

function gridSection() {
  const scales = { head: "each head by itself", all: "all heads alike" };
  const choice = h("fieldset", { class: "radio-group" }, h("legend", {}, "Shade"), ...Object.entries(scales).map(([key, text]) => {
    const input = h("input", { type: "radio", name: "scale", value: key, checked: state.scale === key });
    input.addEventListener("change", () => choose({ scale: key }));
    return h("label", {}, input, h("span", {}, text));
  }));
  const panes = records.map((record, number) => (record.maps.length ? grid(paneName(number), record, (layer, head) => mapOf(record, layer, head)) : null));
  const isComparable = records.length === 2 && records[0].maps.some((maps) => { const was = state.method; state.method = maps.method; const found = differenceOf(maps.layer, maps.heads[0]); state.method = was; return found; });
  const none = h("p", { class: "hint" }, "This method has no maps: it gives one value per position of the input, below.");
  views.push(() => { none.hidden = state.layer !== null; });
  return section("heads", "Heads", choice, none, beside(...panes, isComparable ? grid(DIFFERENCE, records[0], differenceOf) : null));
}

// The map of the chosen head, and the largest entries of the chosen row.
function mapSection() {
  const panes = [], holder = beside();
  const title = h("h3"), hint = h("p", { class: "hint" }), whole = section("map", "Map of a head", title, hint, holder);
  const add = (name, record, mapAt) => {
    const view = new MapView(name, (query, key) => choose({ query, key }));
    const bars = h("ol", { class: "entries" }), heading = h("p", { class: "entries-heading" });
    panes.push({ view, bars, heading, record, mapAt });
    holder.append(h("div", {}, view.node, heading, bars));
  };
  records.forEach((record, number) => add(paneName(number), record, () => mapOf(record, state.layer, state.head)));
  if (records.length === 2) add(DIFFERENCE, records[0], () => differenceOf(state.layer, state.head));
  views.push(() => {
    const limit = limitOf(state.layer, state.head);
    whole.hidden = state.layer === null;
    title.textContent = state.layer ? `${clean(state.layer)}, head ${clean(panes.map(({ mapAt }) => mapAt()?.head).find(Boolean) ?? state.head)}` : "";
    hint.textContent = records.length === 2 && !panes[2].mapAt() ? "There is no difference of this head: the tokens or the shapes are not equal, or one model does not have it." : "";
    hint.hidden = !hint.textContent;
    for (const { view, bars, heading, record, mapAt } of panes) {
      const map = mapAt();
      view.node.parentElement.hidden = !map;
      if (!map) continue;
      const names = namesOf(record, map), query = clamp(state.query, map.rows);
      view.draw(map, names, [state.query, state.key], limit);
      heading.textContent = `Row ${query + 1}, ${names[0][query]}: the largest entries`;
      entries(bars, map.row(query), names[1], limit);
    }
  });
  return whole;
}

function entries(list, row, names, limit) {
  const ranked = [...row.keys()].filter((key) => row[key]).sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, TOP_ENTRIES);
  const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.replaceChildren(...ranked.map((key) => {
    const bar = h("span", { class: row[key] < 0 ? "bar negative" : "bar" });
    bar.style.setProperty("--share", Math.min(Math.abs(row[key]) / (limit || 1), 1));
    return h("li", {}, button(h("span", { class: "name" }, names[key]), () => choose({ key }), { "aria-pressed": String(key === state.key), title: `position ${key + 1}` }), bar,
      h("span", { class: "figure" }, numberText(row[key])));
  }));
  if (focused >= 0) list.querySelectorAll("button")[clamp(focused, ranked.length)]?.focus();
}

// Which values are shown over an axis: the importance of inputs, or the chosen row over its keys.
function heatOf(record, axis) {
  const map = mapOf(record, state.layer, state.head), inputAxis = record.axes.input ? "input" : Object.keys(record.axes)[0];
  const importance = axis === inputAxis ? record.importance[state.method] : undefined;
  if (state.heat === "input" && importance) return importance;
  return map && map.maps.keys === axis ? Array.from(map.row(clamp(state.query, map.rows)), (value) => value || 0) : null;
}
function heatLimit() {
  const all = records.flatMap((record) => Object.keys(record.axes).flatMap((axis) => heatOf(record, axis) ?? []));
  return all.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

// A click on a token chooses its row, in this layer or in the first whose queries are of its axis.
function chooseToken(record, axis, at) {
  const has = (maps) => maps?.queries === axis, layers = layersOf(record), current = mapsOf(record, state.layer);
  if (has(current)) return choose({ query: at });
  const other = layers.find(has);
  if (other && current?.keys !== axis) return choose({ layer: other.layer, query: at });
  return choose(current?.keys === axis ? { key: at } : {});
}

// Output token i has row i of a decoder; of a language model, the row before it in the text, which may
// end before the last one.
function outputRow(record) {
  const input = tokensOf(record, "input"), written = record.output_tokens.map(({ token }) => token);
  if (!written.length) return null;
  if (record.axes.output) return { axis: "output", first: 0 };
  const ends = [0, 1].find((less) => {
    const part = written.slice(0, written.length - less);
    return input.length > part.length && part.every((token, at) => token === input[input.length - part.length + at]);
  });
  return ends === undefined ? null : { axis: "input", first: input.length - written.length + ends - 1 };
}

function inputSection() {
  const choice = h("fieldset", { class: "radio-group" }, h("legend", {}, "Shade by"), ...Object.entries({ input: "importance of the input", row: "the chosen row" }).map(([key, text]) => {
    const input = h("input", { type: "radio", name: "heat", value: key });
    input.addEventListener("change", () => { state.heat = key; repaint(); });
    views.push(() => { input.checked = state.heat === key; });
    return h("label", {}, input, h("span", {}, text));
  }));
  views.push(() => { choice.hidden = state.layer === null; });
  const panes = records.map((record, number) => h("div", {}, ...(records.length === 2 ? [h("h3", {}, paneName(number))] : []), ...axisViews(record, number)));
  return section("input", "Input", choice, beside(...panes));
}

function axisViews(record, number) {
  return Object.entries(record.axes).flatMap(([axis, { tokens, grid: patches, prefix }]) => {
    const name = clean(axis).replaceAll("_", " "), act = (at) => chooseToken(record, axis, at), isInput = axis === "input", found = [];
    const image = isInput && patches && record.image?.image, sound = isInput && record.sound;
    if (image) found.push(new ImageView(name, image, record.axes[axis], act));
    if (sound) found.push(new SoundView(name, sound, data.audio[number], act));
    const output = outputRow(record);
    // The section of the output has the tokens of its axis.
    if (!sound && (!image || prefix) && output?.axis !== axis || output?.axis === axis && isInput) {
      const list = new TokenList(image ? `${name}: other positions` : name, act), breaks = new Set();
      if (output?.axis === axis) breaks.add(output.first + 1);
      if (isInput && record.document?.segments.length === tokens.length) record.document.segments.forEach((segment, at) => at && segment !== record.document.segments[at - 1] && breaks.add(at));
      list.setTokens(image ? tokens.slice(0, prefix) : tokens, breaks);
      found.push(list);
    }
    views.push(() => {
      const values = heatOf(record, axis), limit = heatLimit(), current = mapsOf(record, state.layer);
      const chosen = current?.queries === axis ? clamp(state.query, tokens.length) : current?.keys === axis ? clamp(state.key, tokens.length) : null;
      const describe = (at) => `${tokenNames(record, axis)[at]} (${at + 1})${values ? `: ${numberText(values[at])}` : ""}`;
      found.forEach((view) => view.paint(values, limit, view.has(chosen) ? chosen : null, describe));
    });
    return found.map((view) => view.node);
  });
}

// Token by token, with the log-probability of each: a choice of the row that wrote it.
function outputSection() {
  const panes = records.map((record, number) => {
    const row = outputRow(record);
    const items = record.output_tokens.map((token, at) => {
      const item = button(h("span", {}, h("b", {}, clean(token.token) || "␣"), h("small", {}, `log p ${numberText(token.log_probability)}`)),
        () => chooseToken(record, row.axis, row.first + at), { class: "written", disabled: !row });
      views.push(() => item.setAttribute("aria-pressed", String(row && mapsOf(record, state.layer)?.queries === row.axis && state.query === row.first + at)));
      return item;
    });
    return h("div", {}, records.length === 2 ? h("h3", {}, paneName(number)) : null, h("div", { class: "written-tokens" }, ...items));
  });
  return section("output", "Output, token by token", h("p", { class: "hint" }, "A token chooses the row that wrote it; the input above is shaded by it."), beside(...panes));
}

function arcsSection() {
  const holder = beside(), fits = h("p", { class: "hint" });
  const whole = section("arcs", "Arcs", fits, holder);
  views.push(() => {
    whole.hidden = state.layer === null;
    const drawn = records.map((record, number) => {
      const map = mapOf(record, state.layer, state.head);
      if (!map || Math.max(map.rows, map.columns) > MAX_ARCS) return null;
      return h("figure", {}, h("figcaption", {}, paneName(number)), arcs(map, namesOf(record, map), limitOf(state.layer, state.head), clamp(state.query, map.rows), (query) => choose({ query })));
    }).filter(Boolean);
    holder.replaceChildren(...drawn);
    fits.textContent = drawn.length ? "" : `Arcs are drawn for at most ${MAX_ARCS} tokens.`;
    fits.hidden = drawn.length > 0;
  });
  return whole;
}

function patternSection() {
  const panes = records.filter((record) => record.patterns.length).map((record) => {
    const names = [...new Set(record.patterns.flatMap(({ scores }) => Object.keys(scores)))];
    const headings = ["head", ...names].map((name) => h("th", { scope: "col" }, button(clean(name).replaceAll("_", " "), () => {})));
    const rows = record.patterns.map(({ layer, head, scores }) => {
      const row = h("tr", {}, h("th", { scope: "row", "data-sort": `${layer} ${head.padStart(4, "0")}` }, button(clean(`${layer} ${head}`), () => choose({ layer, head }))),
        ...names.map((name) => {
          const cell = h("td", { "data-sort": scores[name] ?? "" }, scores[name] === undefined ? "–" : scores[name].toFixed(2).replace("-", "−"));
          cell.style.setProperty("--share", scores[name] ?? 0);
          return cell;
        }));
      views.push(() => row.classList.toggle("chosen", layer === state.layer && head === state.head));
      return row;
    });
    const table = h("table", { class: "plain sortable patterns" }, h("caption", {}, `${clean(record.model)}: scores from 0 to 1`), h("thead", {}, h("tr", {}, ...headings)), h("tbody", {}, ...rows));
    makeSortable(table);
    return h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": `Patterns of ${clean(record.model)}` }, table);
  });
  return section("patterns", "Patterns of heads", h("p", { class: "hint" }, "How much of each known pattern a head of self-attention has, on this input. A head chooses its map."), beside(...panes));
}

// Curves are drawn by Python, since they are of the model and not of the input.
function faithfulnessSection() {
  const drawn = document.getElementById("faithfulness");
  if (!drawn) return;
  const charts = [...drawn.querySelectorAll("[data-method]")], none = drawn.querySelector(".hint");
  views.push(() => {
    charts.forEach((chart) => { chart.hidden = chart.dataset.method !== state.method; });
    none.hidden = charts.some((chart) => !chart.hidden);
  });
}

function build() {
  views = [];
  settle();
  const has = (test) => records.some(test), several = records.length === 2;
  const title = clean((records[0]?.title ?? "").replace(/\s+/g, " ").trim()) || "Attention";
  document.getElementById("look-title").textContent = title.length > 90 ? `${title.slice(0, 89)}…` : title;
  place.classList.toggle("single", !several);
  place.replaceChildren(...[
    h("div", { class: "beside records" }, ...records.map((record, number) => h("div", {}, several ? h("h2", {}, paneName(number)) : null, summary(record, number)))),
    controls(),
    has((record) => record.maps.length) && gridSection(),
    has((record) => record.maps.length) && mapSection(),
    has((record) => Object.keys(record.axes).length && (record.maps.length || Object.keys(record.importance).length || record.sound || record.image)) && inputSection(),
    has((record) => record.output_tokens.length) && outputSection(),
    has((record) => !record.image && !record.sound && record.maps.some(({ shape }) => Math.max(...shape) <= MAX_ARCS)) && arcsSection(),
    has((record) => record.tree) && section("tree", "Tree", ...records.filter((record) => record.tree).map((record) =>
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Tree" }, treeChart(record.tree))),
    h("p", { class: "hint" }, "Circles are coloured by the predicted class, stronger where it is more probable; numbers are reconstruction errors.")),
    has((record) => record.patterns.length) && patternSection(),
  ].filter(Boolean));
  faithfulnessSection();
  if (data.live) views.push(listInterventions);
  repaint();
}
