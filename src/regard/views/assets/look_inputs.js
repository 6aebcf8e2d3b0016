// The input, and the output if there is one, under the heat of a method or of one row: text, image, sound;
// arcs between short texts; trees.

const MAX_ARCS = 40;

// Tokens as words: what continues a word has no space before it.
function pieces(tokens) {
  const start = ["▁", "Ġ", " "].find((mark) => tokens.some((token) => token.length > 1 && token.startsWith(mark)));
  return tokens.map((token, at) => {
    const starts = start ? token.startsWith(start) || at === 0 || /^[<[]/.test(token) : !token.startsWith("##");
    const text = starts ? (start && token.startsWith(start) ? token.slice(1) : token) : token.replace(/^##/, "");
    return { text: clean(text) || "␣", starts };
  });
}

// The tokens of an axis as one list: one stop of the keyboard, arrows choose a token.
class TokenList {
  constructor(name, choose) {
    this.list = h("div", { role: "listbox", tabindex: 0, class: "tokens", "aria-label": name });
    this.note = h("p", { class: "map-note", "aria-live": "polite" });
    this.node = h("figure", {}, h("figcaption", {}, name), this.list, this.note);
    this.list.addEventListener("click", (event) => {
      const token = event.target.closest("[data-place]");
      if (token) choose(Number(token.dataset.place));
    });
    this.list.addEventListener("pointerover", (event) => {
      const token = event.target.closest("[data-place]");
      if (token) this.note.textContent = token.title;
    });
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose(clamp((this.chosen ?? -1) + step, this.options.length));
    });
  }

  // `breaks` are the tokens that begin a line.
  setTokens(tokens, breaks) {
    const words = pieces(tokens);
    this.id = unique();
    this.options = words.map(({ text }, place) => h("span", { role: "option", class: "token", "data-place": place, id: `${this.id}-${place}` }, text));
    this.list.replaceChildren(...words.flatMap(({ starts }, place) =>
      [breaks.has(place) ? h("br") : starts && place ? " " : "", this.options[place]].filter(Boolean)));
  }

  has(at) {
    return at !== null && at < this.options.length;
  }

  paint(values, limit, chosen, describe) {
    this.chosen = chosen;
    this.options.forEach((option, place) => {
      const value = values?.[place] ?? 0, share = opacity(value, limit);
      option.style.setProperty("--heat", (0.9 * share).toFixed(3));
      option.classList.toggle("negative", value < 0);
      option.setAttribute("aria-selected", String(place === chosen));
      option.title = describe(place);
    });
    if (chosen === null) this.list.removeAttribute("aria-activedescendant");
    else {
      this.list.setAttribute("aria-activedescendant", `${this.id}-${chosen}`);
      this.note.textContent = describe(chosen);
    }
  }
}

// An image under the heat of its patches.
class ImageView {
  constructor(name, image, axis, choose) {
    Object.assign(this, { image, axis });
    this.canvas = h("canvas", { tabindex: 0, role: "img", class: "picture", "aria-label": `${name}: arrow keys choose a patch` });
    this.note = h("p", { class: "map-note", "aria-live": "polite" });
    this.plain = this.picture();
    this.node = h("figure", {}, h("figcaption", {}, name), h("div", { class: "map-parts" }, this.plain, this.canvas), this.note);
    const [rows, columns] = axis.grid;
    const at = (row, column) => axis.prefix + clamp(row, rows) * columns + clamp(column, columns);
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect();
      choose(at(Math.floor((rows * (event.clientY - box.top)) / box.height), Math.floor((columns * (event.clientX - box.left)) / box.width)));
    });
    this.canvas.addEventListener("keydown", (event) => {
      const step = ARROWS[event.key];
      if (!step) return;
      event.preventDefault();
      const place = Math.max((this.chosen ?? 0) - axis.prefix, 0);
      choose(at(Math.floor(place / columns) + step[0], (place % columns) + step[1]));
    });
  }

  has(at) {
    return at !== null && at >= this.axis.prefix;
  }

  picture() {
    const { width, height, channels, pixels } = this.image, levels = bytesOf({ pixels }, "pixels");
    const found = h("canvas", { width, height, class: "picture", role: "img", "aria-label": "the image" });
    const drawn = new ImageData(width, height);
    for (let at = 0; at < width * height; at++) {
      for (let channel = 0; channel < 3; channel++) drawn.data[4 * at + channel] = levels[at * channels + (channels === 3 ? channel : 0)];
      drawn.data[4 * at + 3] = 255;
    }
    found.getContext("2d").putImageData(drawn, 0, 0);
    const scale = Math.min(260 / Math.max(width, height), 24);
    [found.style.width, this.size] = [`${width * scale}px`, [width * scale, height * scale]];
    return found;
  }

  paint(values, limit, chosen, describe) {
    this.chosen = chosen;
    const [width, height] = this.size, [rows, columns] = this.axis.grid, pen = context(this.canvas, width, height);
    pen.imageSmoothingEnabled = this.image.width > 64;
    pen.globalAlpha = 1;
    pen.filter = "grayscale(1)";
    pen.drawImage(this.plain, 0, 0, width, height);
    pen.filter = "none";
    pen.fillStyle = `rgb(${palette().ground.join(" ")} / .72)`;
    pen.fillRect(0, 0, width, height);
    for (let place = 0; place < rows * columns; place++) {
      const [x, y] = [((place % columns) * width) / columns, (Math.floor(place / columns) * height) / rows];
      const value = values?.[place + this.axis.prefix] ?? 0;
      pen.globalAlpha = 0.8;
      pen.fillStyle = shade(value, limit);
      pen.fillRect(x, y, width / columns, height / rows);
      pen.globalAlpha = 1;
      pen.strokeStyle = `rgb(${palette().ink.join(" ")})`;
      if (value < 0 && opacity(value, limit) > 0.15) {
        pen.strokeRect(x + (0.35 * width) / columns, y + (0.5 * height) / rows, (0.3 * width) / columns, 0.5);
      }
      if (place + this.axis.prefix === chosen) {
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, width / columns - 2, height / rows - 2);
      }
    }
    this.note.textContent = chosen === null ? "" : describe(chosen);
  }
}

// At most seven round numbers from 0.
function ticks(total) {
  const power = 10 ** Math.floor(Math.log10(total)), step = [0.1, 0.2, 0.5, 1, 2].map((part) => part * power).find((each) => total / each <= 6);
  return Array.from({ length: Math.floor(total / step + 1e-9) + 1 }, (_, number) => Number((number * step).toPrecision(6)));
}

// A spectrogram with its words, a row of heat below it on the same time axis, and the recording.
class SoundView {
  constructor(name, sound, audio, choose) {
    Object.assign(this, { sound, choose });
    this.drawing = s("svg", { viewBox: "0 0 640 196", class: "chart heatmap sound-chart look-sound", tabindex: 0, role: "img",
      "aria-label": `Spectrogram of ${clean(sound.name)}, ${clean(sound.bands)}; arrow keys choose a frame`,
      "data-time": `52 628 24 152 ${sound.seconds ?? sound.frames}` });
    this.note = h("p", { class: "map-note", "aria-live": "polite" });
    this.node = h("figure", { class: "sound" }, h("figcaption", {}, name),
      audio ? h("audio", { controls: true, preload: "metadata", src: audio, "aria-label": `Recording ${clean(sound.name)}` }) : null,
      h("p", { class: "hint" }, clean(sound.note || (audio ? "" : "The page has no audio of this recording."))),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Spectrogram" }, this.drawing), this.note);
    this.drawing.addEventListener("keydown", (event) => {
      const step = ARROWS[event.key];
      if (!step) return;
      event.preventDefault();
      choose(clamp((this.chosen ?? -1) + step[0] + step[1], this.count));
    });
    this.drawing.addEventListener("click", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.drawing.getScreenCTM().inverse());
      if (point.x >= 52 && point.x < 628 && point.y > 124) choose(clamp(Math.floor((this.count * (point.x - 52)) / 576), this.count));
    });
    this.draw();
    followSound(this.node);
  }

  has(at) {
    return at !== null;
  }

  draw() {
    const { sound } = this, cells = bytesOf(sound, "spectrogram"), columns = cells.length / sound.num_bands;
    const total = sound.seconds ?? sound.frames, x = (time) => 52 + 576 * Math.min(time / total, 1);
    const image = new ImageData(columns, sound.num_bands);
    for (let at = 0; at < cells.length; at++) {
      // The lowest band is first in the record, and at the bottom of the picture.
      const place = 4 * ((sound.num_bands - 1 - Math.floor(at / columns)) * columns + (at % columns));
      image.data.set([...palette().ink, cells[at]], place);
    }
    const canvas = h("canvas", { width: columns, height: sound.num_bands });
    canvas.getContext("2d").putImageData(image, 0, 0);
    const text = (content, attributes) => s("text", attributes, clean(content));
    this.strip = s("g");
    this.drawing.replaceChildren(
      s("rect", { class: "ground", x: 52, y: 24, width: 576, height: 96 }),
      s("image", { href: canvas.toDataURL(), x: 52, y: 24, width: 576, height: 96, preserveAspectRatio: "none" }),
      text(sound.high, { x: 47, y: 34, "text-anchor": "end" }), text(sound.low, { x: 47, y: 120, "text-anchor": "end" }),
      text("heat", { x: 47, y: 144, "text-anchor": "end" }), this.strip,
      ...sound.words.flatMap((each) => [
        s("line", { class: "word-span", x1: x(each.start), x2: x(each.end), y1: 20, y2: 20 }),
        each.word.length * 6.1 < x(each.end) - x(each.start) + 12
          ? text(each.word, { x: (x(each.start) + x(each.end)) / 2, y: 14, "text-anchor": "middle", class: "unit" }) : "",
      ].filter(Boolean)),
      ...ticks(total).flatMap((tick) => [
        s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 152, y2: 156 }),
        text(numberText(tick), { x: x(tick), y: 169, "text-anchor": "middle" }),
      ]),
      text(sound.seconds ? "seconds" : "frames", { x: 340, y: 188, "text-anchor": "middle" }));
  }

  paint(values, limit, chosen, describe) {
    this.chosen = chosen;
    this.count = values?.length ?? 1;
    const width = 576 / this.count;
    const cell = (value, place) => s("rect", { x: 52 + width * place, y: 128, width: Math.max(width - (width > 4 ? 1 : 0), 0.5), height: value < 0 ? 12 : 24,
      class: value < 0 ? "negative" : null, "fill-opacity": opacity(value, limit).toFixed(3) });
    const cells = Array.from(values ?? [], (value, place) => (value ? cell(value, place) : "")).filter(Boolean);
    this.strip.replaceChildren(s("rect", { class: "ground", x: 52, y: 128, width: 576, height: 24 }), s("g", { class: "cells" }, ...cells));
    if (chosen !== null) this.strip.append(s("rect", { class: "pair", x: 52 + width * chosen, y: 127, width: Math.max(width, 2), height: 26 }));
    this.note.textContent = chosen === null ? "" : describe(chosen);
  }
}

// Queries on the left, keys on the right, and a curve for every entry.
function arcs(map, names, limit, chosen, choose) {
  const height = 22 * Math.max(map.rows, map.columns) + 24, y = (place) => 32 + 22 * place, lines = [];
  for (let query = 0; query < map.rows; query++) {
    map.row(query).forEach((value, key) => {
      const share = Math.abs(value) / (limit || 1);
      if (!(share > 0.03)) return;
      lines.push(s("path", { d: `M138 ${y(query) - 4} C 210 ${y(query) - 4} 210 ${y(key) - 4} 282 ${y(key) - 4}`,
        class: [value < 0 ? "negative" : "", query === chosen ? "on" : ""].join(" ").trim() || null,
        "stroke-width": (0.6 + 4 * share).toFixed(2), "stroke-opacity": (query === chosen ? Math.max(share, 0.35) : 0.6 * share).toFixed(2) },
      s("title", {}, `${names[0][query]} → ${names[1][key]}: ${numberText(value)}`)));
    });
  }
  const label = (side) => (name, place) => {
    const text = s("text", { x: side ? 290 : 130, y: y(place), "text-anchor": side ? "start" : "end", class: !side && place === chosen ? "on" : null },
      name.length > 16 ? `${name.slice(0, 15)}…` : name);
    if (!side) text.addEventListener("click", () => choose(place));
    return text;
  };
  return s("svg", { viewBox: `0 0 420 ${height}`, class: "chart heatmap arcs", role: "img",
    "aria-label": `Curves from ${map.rows} queries on the left to ${map.columns} keys on the right; the map above has the same entries` },
  s("text", { x: 130, y: 12, "text-anchor": "end", class: "side" }, "query"), s("text", { x: 290, y: 12, class: "side" }, "key"),
  s("g", { class: "curves" }, ...lines), ...names[0].map(label(0)), ...names[1].map(label(1)));
}

// The tree of a recursive autoencoder, as charts/trees.py draws it.
function treeChart(tree) {
  const at = [], words = tree.leaves.length, classes = [...new Set(tree.predictions)].sort();
  let left = 12;
  for (const word of tree.leaves) {
    const width = Math.max(32, 7.6 * clean(word).length) + 12;
    at.push({ x: left + width / 2, level: 0 });
    left += width;
  }
  for (const [one, other] of tree.merges) {
    at.push({ x: (at[one].x + at[other].x) / 2, level: 1 + Math.max(at[one].level, at[other].level) });
  }
  const bottom = 34 * (Math.max(...at.map(({ level }) => level)) + 1), y = (node) => bottom - 34 * node.level, parts = [];
  tree.merges.forEach((children, number) => {
    const node = at[words + number];
    for (const child of children) parts.push(s("polyline", { class: "edge", points: `${at[child].x},${y(at[child])} ${at[child].x},${y(node)} ${node.x},${y(node)}` }));
  });
  at.forEach((node, number) => {
    const name = tree.predictions[number], place = { cx: node.x, cy: y(node), r: number < words ? 4 : 5.5 };
    const chance = 1 / Math.max(2, classes.length), sure = 0.15 + (0.85 * Math.max(0, tree.confidences[number] - chance)) / (1 - chance);
    parts.push(s("circle", { class: "ground", ...place }), s("circle", { class: `node tone-${classes.indexOf(name) % 8}`, "fill-opacity": sure.toFixed(2), ...place },
      s("title", {}, `${clean(name)}, probability ${numberText(tree.confidences[number])}`)));
    if (number < words) parts.push(s("text", { x: node.x, y: bottom + 20, "text-anchor": "middle" }, clean(tree.leaves[number])));
    else parts.push(s("text", { class: "error", x: node.x + 6, y: y(node) - 5 }, numberText(tree.errors[number - words])));
  });
  let right = 12;
  classes.forEach((name, number) => {
    parts.push(s("text", { class: `class tone-${number % 8}`, x: right, y: bottom + 50 }, `● ${clean(name)}`));
    right += 7.6 * clean(name).length + 40;
  });
  const width = Math.ceil(Math.max(left, right) + 12);
  const drawn = s("svg", { viewBox: `0 0 ${width} ${bottom + 58}`, class: "tree", role: "img", "aria-label": `Tree over ${words} words; its root is ${clean(tree.predictions.at(-1))}` }, ...parts);
  drawn.style.width = `${width}px`;
  return drawn;
}
