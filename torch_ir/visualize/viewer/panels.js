/* The panels: details, statistics, search. */

function make(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key === "class") element.className = value;
    else if (key === "click") element.addEventListener("click", value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}
/* A name that may be broken after a dot, an underscore or a slash, and nowhere else while there is room. */
function broken(element, name) {
  name.split(/(?<=[._/:])/).forEach((piece, i) => { if (i) element.append(document.createElement("wbr")); element.append(piece); });
  return element;
}
function say(message) { byId("live").textContent = message; }
function goTo(item, focus) {
  reveal(item);
  select(item);
  centre(item);
  if (focus) canvas.focus();
}
const home = data.diff ? "changes" : "stats"; // the panel that is shown while nothing is selected
function select(item) {
  selected = item;
  tab(item ? "details" : home);
  showDetails();
  if (item) say(item.isBox ? `${item.title}, ${item.sub}` : `${item.title}, ${text(item.raw.name)}, ${item.sub}`);
  draw();
}
function tab(name) {
  for (const id of ["details", "stats", "changes"]) {
    byId(id).hidden = id !== name;
    byId("tab-" + id).setAttribute("aria-selected", String(id === name));
  }
}
function crumbs(item) {
  const chain = [];
  for (let box = item.parent; box && box !== top; box = box.parent) chain.unshift(box);
  if (!chain.length) return null;
  const line = make("p", { class: "crumbs" });
  chain.forEach((box, i) => {
    if (i) line.append("›");
    line.append(make("button", { class: "link", textContent: box.title || "·", click: () => goTo(box) }));
  });
  return line;
}
function section(title, ...content) { return [make("h3", { textContent: title }), ...content]; }
function pairs(rows) {
  const list = make("dl");
  for (const [key, value] of rows) list.append(broken(make("dt"), key), broken(make("dd", { class: "mono" }), value));
  return list;
}
/* Pairs of texts, from a flat list of their numbers. */
function texts(numbers) { return numbers.flatMap((key, i) => (i % 2 ? [] : [[text(key), text(numbers[i + 1])]])); }
function itemList(entries) {
  const list = make("ul", { class: "list" });
  const add = (from, to) => {
    for (const [item, prefix, detail] of entries.slice(from, to)) {
      list.append(make("li", null,
        prefix ? make("span", { class: "sub", textContent: prefix + " " }) : null,
        broken(make("button", { class: "link", click: () => goTo(item) }), item.isBox ? item.title : text(item.raw.name)),
        detail ? make("span", { class: "mono", textContent: " " + detail }) : null));
    }
    if (entries.length > to) {
      const more = make("button", { class: "link", textContent: `${entries.length - to} more`, click: () => { more.remove(); add(to, to + 500); } });
      list.append(more);
    }
  };
  add(0, 40);
  return list;
}

function showDetails() {
  const panel = byId("details");
  panel.replaceChildren();
  const item = selected;
  if (!item) {
    panel.append(make("p", { class: "sub", textContent: "Nothing is selected. Click a symbol, or press / to search." }));
    return;
  }
  panel.append(broken(make("h2"), item.title || "·"));
  if (item.isBox) boxDetails(panel, item);
  else vertexDetails(panel, item);
}

function vertexDetails(panel, item) {
  const raw = item.raw;
  panel.append(broken(make("p", { class: "sub mono" }), raw.kind === "op" ? text(raw.op) : raw.kind));
  const where = crumbs(item);
  if (where) panel.append(where);
  if (raw.change) panel.append(...section(`Changes: ${raw.change}`, ...changesOf(item)));
  panel.append(...section("Node", pairs([
    ["name", text(raw.name)],
    ...(raw.kind === "op" ? [["category", item.category], ["module", raw.path === undefined ? "(root)" : text(raw.path)]] : []),
  ])));
  if (raw.out.length) panel.append(...section(raw.out.length === 1 ? "Output" : "Outputs", pairs(raw.out.map((shape, i) => [raw.out.length === 1 ? "value" : String(i), text(shape)]))));
  if (raw.args && raw.args.length) panel.append(...section("Arguments", pairs(raw.args.map(([key, value]) => [text(key), text(value)]))));
  if (raw.weights) panel.append(...section("Weights", pairs(raw.weights.flatMap(([argument, key, shape, , size]) => [[text(argument), `${text(key)}\u2003${text(shape)}\u2003${bytes(size)}`]]))));
  if (raw.cost) panel.append(...section("Cost", pairs(texts(raw.cost))));
  if (item.ins.length) panel.append(...section("Inputs", itemList(item.ins.map((i) => [vertices[data.edges[i][0]], text(data.edges[i][4]), text(data.edges[i][3])]))));
  if (item.outs.length) panel.append(...section("Read by", itemList(item.outs.map((i) => [vertices[data.edges[i][1]], "", text(data.edges[i][4])]))));
  if (raw.source !== undefined) panel.append(...section("Source", make("pre", { textContent: text(raw.source) })));
}

function boxDetails(panel, box) {
  const full = text(box.raw.type);
  panel.append(broken(make("p", { class: "sub mono" }), full || box.raw.kind));
  const where = crumbs(box);
  if (where) panel.append(where);
  panel.append(make("div", { class: "actions" },
    make("button", { textContent: box.open ? "Close" : "Open", click: () => toggle(box) }),
    make("button", { textContent: "Open all inside", click: () => { openInside(box); } })));
  const seen = new Map(), ops = new Map(), enter = new Map(), leave = new Map();
  for (let id = box.first; id <= box.last; id++) {
    const vertex = vertices[id];
    if (vertex.raw.kind === "op") ops.set(text(vertex.raw.op), (ops.get(text(vertex.raw.op)) || 0) + 1);
    for (const weight of vertex.raw.weights || []) seen.set(weight[1], weight);
    for (const i of vertex.ins) { const e = data.edges[i]; if (e[0] < box.first || e[0] > box.last) enter.set(`${e[0]}.${e[2]}`, [vertices[e[0]], "", text(e[3])]); }
    for (const i of vertex.outs) { const e = data.edges[i]; if (e[1] < box.first || e[1] > box.last) leave.set(`${e[0]}.${e[2]}`, [vertex, "", text(e[3])]); }
  }
  let size = 0;
  for (const weight of seen.values()) size += weight[4];
  panel.append(...section("Module", pairs([
    ["path", text(box.raw.path)], ["ops", box.ops.toLocaleString("en")],
    ["weights", seen.size ? `${plural(seen.size, "tensor")}, ${count(box.elements)}, ${bytes(size)}` : "none"],
  ])));
  if (box.raw.cost.length) panel.append(...section("Cost", pairs(texts(box.raw.cost))));
  if (enter.size) panel.append(...section("Inputs", itemList([...enter.values()])));
  if (leave.size) panel.append(...section("Outputs", itemList([...leave.values()])));
  panel.append(...section("Ops", bars([...ops].sort((a, b) => b[1] - a[1]).map(([op, number]) => ({ name: op, value: number, shown: String(number), click: () => query(op) })))));
}
function openInside(box) {
  for (const other of boxes) for (let up = other; up; up = up.parent) if (up === box) { other.open = true; break; }
  relayout();
  centre(box);
  showDetails();
}

function bars(rows, most = 14) {
  const list = make("div"), largest = rows.reduce((top, row) => Math.max(top, row.value), 1);
  const add = (from, to) => {
    for (const row of rows.slice(from, to)) {
      const fill = make("i");
      fill.style.width = `${(row.value / largest) * 100}%`;
      list.append(make("button", { class: "row", title: row.title || "", click: row.click }, fill,
        broken(make("span", { class: "name" }), row.name), make("span", { class: "num", textContent: row.shown })));
    }
    if (rows.length > to) {
      const more = make("button", { class: "link", textContent: `${rows.length - to} more`, click: () => { more.remove(); add(to, rows.length); } });
      list.append(more);
    }
  };
  add(0, most);
  return list;
}

function showStatistics() {
  const s = data.statistics, panel = byId("stats");
  const card = (value, name) => make("div", null, make("b", { textContent: value }), make("span", { textContent: name }));
  panel.append(broken(make("h2"), data.model), make("div", { class: "cards" },
    card(s.nodes.toLocaleString("en"), "nodes"), card(String(s.ops.length), "different ops"),
    card(count(s.weights[2]), "parameters and buffers"), card(bytes(s.weights[3]), "weight bytes"),
    card(`${s.inputs} → ${s.outputs}`, "inputs → outputs"), card(bytes(s.constants[3]), plural(s.constants[1], "constant"))));
  if (s.weights[1]) panel.append(...section("Parameters by module", ...moduleRows(s.modules, (elements, size) => `${count(elements)} · ${bytes(size)}`, "tensor")));
  panel.append(...section("Cost", pairs(s.cost.rows)));
  if (s.cost.unknown) panel.append(make("p", { class: "sub", textContent: `not counted: ${plural(s.cost.unknown, "node")} (see their details)` }));
  if (s.cost.modules[0][2]) panel.append(...section(`Operations by module${s.cost.sizes && ` (${s.cost.sizes})`}`, ...moduleRows(s.cost.modules, (flops, moved) => `${count(flops)} · ${bytes(moved)}`, "node")));
  panel.append(...section("Ops", bars(s.ops.map(([op, number]) => ({ name: op, value: number, shown: number.toLocaleString("en"), click: () => query(op) })))));
  if (s.dtypes.length) panel.append(...section("Weights by dtype", bars(s.dtypes.map(([name, tensors, elements, size]) => ({ name, value: size, shown: bytes(size), title: `${plural(tensors, "tensor")}, ${elements.toLocaleString("en")} elements`, click: () => query(name) })))));
}
/* At most a dozen rows that add up to the whole: the largest is split while there is room. */
function moduleRows(modules, format, unit) {
  const kids = new Map();
  for (const row of modules) {
    if (row[0] === "") continue;
    const cut = row[0].lastIndexOf("."), parent = cut < 0 ? "" : row[0].slice(0, cut);
    if (!kids.has(parent)) kids.set(parent, []);
    kids.get(parent).push(row);
  }
  const parts = (row) => {
    const below = kids.get(row[0]) || [];
    const own = [1, 2, 3].map((i) => row[i] - below.reduce((sum, part) => sum + part[i], 0));
    return below.length && own[0] ? [...below, [`${row[0]} (itself)`.trim(), ...own]] : below;
  };
  let rows = [modules[0]];
  for (;;) {
    const largest = rows.reduce((most, row) => (row[2] > most[2] ? row : most)), below = parts(largest);
    if (!below.length || rows.length - 1 + below.length > 12) break;
    rows = rows.flatMap((row) => (row === largest ? below : [row]));
  }
  return [bars(rows.map(([path, tensors, elements, size]) => ({
    name: path || "(root)", value: elements, shown: format(elements, size), title: plural(tensors, unit),
    click: () => { const box = boxes.find((b) => text(b.raw.path) === path); if (box) goTo(box); else query(path); },
  })))];
}

/* Search: every word must occur in the texts of an item. */
let index = null, found = [], at = -1;
function haystack() {
  if (index) return index;
  index = [];
  for (const box of boxes) index.push([box, `${box.title} ${text(box.raw.path)} ${text(box.raw.type)}`.toLowerCase()]);
  for (const vertex of vertices) {
    const raw = vertex.raw;
    const words = [text(raw.label), text(raw.name), raw.kind, ...raw.out.map(text)];
    if (raw.kind === "op") words.push(text(raw.op), vertex.category);
    if (raw.path !== undefined) words.push(text(raw.path));
    if (raw.source !== undefined) words.push(text(raw.source));
    for (const weight of raw.weights || []) words.push(text(weight[1]), text(weight[2]));
    index.push([vertex, words.join(" ").toLowerCase()]);
  }
  return index;
}
function search(value) {
  const words = value.toLowerCase().split(/\s+/).filter(Boolean);
  found = words.length ? haystack().filter(([, hay]) => words.every((word) => hay.includes(word))).map(([item]) => item) : [];
  const rank = (item) => { const t = item.title.toLowerCase(); return t === words[0] ? 0 : t.startsWith(words[0]) ? 1 : t.includes(words[0]) ? 2 : 3; };
  if (words.length) found.sort((a, b) => rank(a) - rank(b));
  hits = new Set(found);
  at = found.length ? 0 : -1;
  const list = byId("hits");
  list.replaceChildren(...found.slice(0, 100).map((item, i) => {
    const dot = make("i", { class: "dot" });
    dot.style.background = hue[item.category];
    const detail = item.isBox ? `${text(item.raw.path)} · ${item.sub}` : [text(item.raw.name), item.raw.path === undefined ? "" : text(item.raw.path), item.sub].filter(Boolean).join(" · ");
    const row = make("li", { id: "hit" + i, role: "option", click: () => { at = i; choose(); byId("search").focus(); } }, dot, make("b", { textContent: clip(item.title, 60) }), make("span", { textContent: detail }));
    row.setAttribute("role", "option");
    return row;
  }));
  byId("found").textContent = words.length ? plural(found.length, "match").replace("matchs", "matches") + (found.length > 100 ? ", the first 100 are listed" : "") : "";
  byId("results").hidden = !words.length;
  byId("search").setAttribute("aria-expanded", String(Boolean(words.length)));
  mark();
  draw();
}
function mark() {
  for (const [i, row] of [...byId("hits").children].entries()) {
    row.setAttribute("aria-selected", String(i === at));
    if (i === at) { row.scrollIntoView({ block: "nearest" }); byId("search").setAttribute("aria-activedescendant", row.id); }
  }
}
function choose() {
  if (at < 0) return;
  mark();
  goTo(found[at], false);
}
function query(value) {
  byId("search").value = value;
  search(value);
  byId("search").focus();
}
function closeSearch() {
  byId("results").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
}
