// Unpacks the maps of a record (see LayerMaps in core/records/look.py), and paints them.

const TOP_ENTRIES = 16;
const unpacked = new WeakMap();

// The bytes of a field of maps, decoded when they are first asked for.
function bytesOf(maps, field) {
  if (!unpacked.has(maps)) unpacked.set(maps, {});
  const fields = unpacked.get(maps);
  if (!fields[field]) {
    const text = atob(maps[field]);
    const found = fields[field] = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at);
  }
  return fields[field];
}

function half(low, high) {
  const exponent = (high >> 2) & 31, fraction = ((high & 3) << 8) | low;
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return high >> 7 ? -size : size;
}

// The map of one head: `row` gives all entries of a query, NaN where the record has none.
class HeadMap {
  constructor(maps, head) {
    const others = maps.heads.filter((each) => !maps.exact.includes(each));
    this.maps = maps;
    this.head = head;
    [this.rows, this.columns] = maps.shape;
    this.limit = maps.limits[maps.heads.indexOf(head)];
    this.isExact = maps.exact.includes(head);
    this.place = (this.isExact ? maps.exact : others).indexOf(head);
    this.cache = new Map();
  }

  // The picture of the head, in units of the method.
  tile() {
    const [rows, columns] = this.maps.tile_shape, number = this.maps.heads.indexOf(this.head);
    const cells = new Int8Array(bytesOf(this.maps, "tiles").buffer, number * rows * columns, rows * columns);
    return Float32Array.from(cells, (cell) => (cell * this.limit) / 127);
  }

  row(query) {
    if (!this.cache.has(query)) this.cache.set(query, this.unpackedRow(query));
    return this.cache.get(query);
  }

  unpackedRow(query) {
    const found = new Float32Array(this.columns).fill(NaN);
    const first = this.place * this.rows + query;
    if (this.isExact) {
      const data = bytesOf(this.maps, "exact_values");
      for (let key = 0, at = 2 * first * this.columns; key < this.columns; key++, at += 2) {
        found[key] = this.limit * half(data[at], data[at + 1]);
      }
      return found;
    }
    const keys = bytesOf(this.maps, "top_indices"), data = bytesOf(this.maps, "top_values");
    for (let entry = 0, at = 2 * first * TOP_ENTRIES; entry < TOP_ENTRIES && at < keys.length; entry++, at += 2) {
      const value = half(data[at], data[at + 1]);
      if (value) found[keys[at] | (keys[at + 1] << 8)] = this.limit * value;
    }
    return found;
  }
}

// The second map minus the first, where both have an entry.
class Difference {
  constructor(first, second) {
    this.maps = first.maps;
    [this.first, this.second] = [first, second];
    [this.rows, this.columns] = [first.rows, first.columns];
    this.limit = Math.max(first.limit, second.limit);
    this.isExact = first.isExact && second.isExact;
  }

  tile() {
    const before = this.first.tile();
    return this.second.tile().map((value, at) => value - before[at]);
  }

  row(query) {
    const before = this.first.row(query);
    return this.second.row(query).map((value, at) => value - before[at]);
  }
}

// Opacity is the square root of the share of the limit, as in all heatmaps of regard.
function opacity(value, limit) {
  return limit && value ? Math.sqrt(Math.min(Math.abs(value) / limit, 1)) : 0;
}

let colours = null; // of the scheme that is in use
function palette() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    const channels = (name) => style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    const names = ["plus", "minus", "ink", "soft", "cell", "ground"];
    colours = Object.fromEntries(names.map((name) => [name, channels(`--${name}`)]));
  }
  return colours;
}

function shade(value, limit) {
  return `rgb(${palette()[value < 0 ? "minus" : "plus"].join(" ")} / ${opacity(value, limit)})`;
}

// A tile as an image: one pixel per cell.
function paintTile(canvas, map, limit) {
  const [rows, columns] = map.maps.tile_shape, { plus, minus } = palette(), values = map.tile();
  const image = new ImageData(columns, rows), scale = limit ? 255 ** 2 / limit : 0;
  for (let at = 0; at < values.length; at++) {
    const colour = values[at] < 0 ? minus : plus, pixel = 4 * at;
    for (let channel = 0; channel < 3; channel++) image.data[pixel + channel] = colour[channel];
    image.data[pixel + 3] = Math.sqrt(Math.abs(values[at]) * scale);
  }
  [canvas.width, canvas.height] = [columns, rows];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// A canvas of this size in CSS pixels, sharp on every screen.
function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const found = canvas.getContext("2d");
  found.scale(ratio, ratio);
  return found;
}

const MIN_CELL = 13, MAX_CELL = 26, MAX_ROWS = 40, FONT = "11px system-ui, sans-serif";

// A map with the names of its rows and columns, or the part of it around the chosen cell; an overview of
// the whole is beside it then. `choose` gets the cell that was clicked or moved to by arrow keys.
class MapView {
  constructor(name, choose) {
    this.first = [0, 0];
    this.canvas = h("canvas", { tabindex: 0, role: "img", class: "map" });
    this.overview = h("canvas", { tabindex: 0, role: "img", class: "overview" });
    this.note = h("p", { class: "map-note", "aria-live": "polite" });
    this.about = h("p", { class: "hint" });
    this.node = h("figure", { class: "map-view" }, h("figcaption", {}, name), this.note,
      h("div", { class: "map-parts" }, this.overview, this.canvas), this.about);
    this.canvas.addEventListener("pointermove", (event) => this.tell(...this.cellAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.tell(...this.chosen));
    this.canvas.addEventListener("click", (event) => choose(...this.cellAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.move(event, 1, 1, choose));
    this.overview.addEventListener("click", (event) => {
      const box = this.overview.getBoundingClientRect();
      choose(Math.floor((this.map.rows * (event.clientY - box.top)) / box.height),
        Math.floor((this.map.columns * (event.clientX - box.left)) / box.width));
    });
    this.overview.addEventListener("keydown", (event) => this.move(event, this.shown[0], this.shown[1], choose));
  }

  move(event, down, across, choose) {
    const step = ARROWS[event.key];
    if (!step) return;
    event.preventDefault();
    choose(clamp(this.chosen[0] + down * step[0], this.map.rows), clamp(this.chosen[1] + across * step[1], this.map.columns));
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return [[event.clientY - box.top - this.top, 0], [event.clientX - box.left - this.left, 1]].map(([at, side]) =>
      this.first[side] + clamp(Math.floor(at / this.cell), this.shown[side]));
  }

  tell(query, key) {
    const value = this.map.row(query)[key];
    this.note.textContent = `${this.names[0][query]} → ${this.names[1][key]}: ` +
      (Number.isNaN(value) ? `not among the ${TOP_ENTRIES} largest entries of its row` : numberText(value));
  }

  // `names` of rows and columns, `chosen` the cell, `limit` the value of full colour.
  draw(map, names, chosen, limit) {
    Object.assign(this, { map, names, chosen: [clamp(chosen[0], map.rows), clamp(chosen[1], map.columns)] });
    const room = this.node.clientWidth || 320, sides = [map.rows, map.columns];
    const pen = this.canvas.getContext("2d");
    pen.font = `bold ${FONT}`;
    const widest = (labels) => Math.max(...labels.slice(0, 400).map((each) => pen.measureText(each.slice(0, 16)).width));
    this.left = Math.min(widest(names[0]), room / 4, 110) + 8;
    this.top = Math.min(widest(names[1]), 90) + 8;
    this.cell = Math.max(MIN_CELL, Math.min(MAX_CELL, Math.floor((room - this.left - 2) / map.columns)));
    this.shown = [Math.min(map.rows, MAX_ROWS), Math.min(map.columns, Math.max(Math.floor((room - this.left - 2) / this.cell), 1))];
    this.first = this.first.map((first, side) => {
      const inside = this.chosen[side] >= first && this.chosen[side] < first + this.shown[side];
      const start = inside ? first : this.chosen[side] - Math.floor(this.shown[side] / 2);
      return Math.max(0, Math.min(start, sides[side] - this.shown[side]));
    });
    const isPart = this.shown.some((count, side) => count < sides[side]);
    this.overview.hidden = !isPart;
    if (isPart) this.drawOverview(limit, sides);
    this.drawCells(limit);
    this.tell(...this.chosen);
    const range = (side) => `${this.first[side] + 1}–${this.first[side] + this.shown[side]} of ${sides[side]}`;
    this.about.textContent = [
      isPart ? `Rows ${range(0)}, columns ${range(1)}: the small picture has all of them, a cell of it the entry of largest size in its block; choose another part there.` : "",
      map.isExact ? "" : `Only the ${TOP_ENTRIES} largest entries of each row are kept of this head; crossed cells are others.`,
    ].filter(Boolean).join(" ");
    this.about.hidden = !this.about.textContent;
    this.canvas.setAttribute("aria-label", `Map of ${map.rows} rows and ${map.columns} columns; arrow keys choose an entry, which is named above`);
    this.overview.setAttribute("aria-label", "The whole map; arrow keys choose the part that is shown");
  }

  drawOverview(limit, sides) {
    const small = document.createElement("canvas"), size = Math.min(176, this.node.clientWidth || 176);
    paintTile(small, this.map, limit);
    const scale = size / Math.max(...sides), [height, width] = sides.map((side) => Math.max(side * scale, 12));
    const pen = context(this.overview, width, height);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, 0, 0, width, height);
    pen.strokeStyle = `rgb(${palette().ink.join(" ")})`;
    pen.lineWidth = 1.5;
    const [y, x] = [(this.first[0] / sides[0]) * height, (this.first[1] / sides[1]) * width];
    pen.strokeRect(x + 0.75, y + 0.75, Math.max((this.shown[1] / sides[1]) * width - 1.5, 3), Math.max((this.shown[0] / sides[0]) * height - 1.5, 3));
  }

  drawCells(limit) {
    const { left, top, cell, shown, first, chosen } = this, { ink, soft, cell: ground } = palette();
    const pen = context(this.canvas, left + cell * shown[1] + 2, top + cell * shown[0] + 2);
    pen.font = FONT;
    for (let row = 0; row < shown[0]; row++) {
      const values = this.map.row(first[0] + row), y = top + cell * row;
      for (let column = 0; column < shown[1]; column++) {
        const value = values[first[1] + column], x = left + cell * column;
        pen.fillStyle = `rgb(${ground.join(" ")})`;
        pen.fillRect(x, y, cell - 1, cell - 1);
        if (Number.isNaN(value)) {
          pen.strokeStyle = `rgb(${soft.join(" ")} / .35)`;
          pen.beginPath();
          pen.moveTo(x + 2, y + cell - 3);
          pen.lineTo(x + cell - 3, y + 2);
          pen.stroke();
          continue;
        }
        pen.fillStyle = shade(value, limit);
        pen.fillRect(x, y, cell - 1, cell - 1);
        // A negative entry has a bar, so that colour is not the only cue.
        if (value < 0 && opacity(value, limit) > 0.15) {
          pen.fillStyle = `rgb(${ink.join(" ")})`;
          pen.fillRect(x + cell / 4, y + (cell - 1) / 2 - 0.5, cell / 2 - 1, 1);
        }
      }
    }
    const label = (text, isChosen) => {
      pen.fillStyle = `rgb(${(isChosen ? ink : soft).join(" ")})`;
      pen.font = isChosen ? `bold ${FONT}` : FONT;
      pen.fillText(text.length > 16 ? `${text.slice(0, 15)}…` : text, 0, 0);
    };
    for (let row = 0; row < shown[0]; row++) {
      pen.save();
      pen.beginPath();
      pen.rect(0, 0, left - 3, top + cell * shown[0]);
      pen.clip();
      pen.textAlign = "right";
      pen.translate(left - 5, top + cell * row + cell / 2 + 3.5);
      label(this.names[0][first[0] + row], first[0] + row === chosen[0]);
      pen.restore();
    }
    for (let column = 0; column < shown[1]; column++) {
      pen.save();
      pen.translate(left + cell * column + cell / 2 + 3.5, top - 5);
      pen.rotate(-Math.PI / 2);
      label(this.names[1][first[1] + column], first[1] + column === chosen[1]);
      pen.restore();
    }
    pen.strokeStyle = `rgb(${ink.join(" ")})`;
    pen.lineWidth = 1.6;
    pen.strokeRect(left + cell * (chosen[1] - first[1]) - 0.5, top + cell * (chosen[0] - first[0]) - 0.5, cell, cell);
  }
}
