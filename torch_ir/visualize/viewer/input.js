/* Pointer, keys, and the fragment of the address. */

function hit(x, y) {
  const px = (x - view.x) / view.k, py = (y - view.y) / view.k;
  let best = null;
  (function visit(box) {
    for (const child of box.children) {
      if (px < child.X || py < child.Y || px > child.X + child.w || py > child.Y + child.h) continue;
      best = child;
      if (child.isBox && child.open) visit(child);
    }
  })(top);
  return { item: best, px, py };
}
function onSign({ item, px, py }) {
  if (!item || !item.isBox) return false;
  return item.open ? px < item.X + 28 && py < item.Y + HEAD : px > item.X + item.w - 28 && py < item.Y + 28;
}

const pointers = new Map();
let moved = false;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  if (pointers.size === 1) moved = false;
  closeSearch();
});
canvas.addEventListener("pointermove", (event) => {
  const last = pointers.get(event.pointerId), x = event.offsetX, y = event.offsetY;
  if (!last) { hover(x, y); return; }
  if (pointers.size === 1) {
    if (!moved && Math.hypot(x - last.x, y - last.y) < 4) return;
    moved = true;
    canvas.classList.add("dragging");
    byId("tip").hidden = true;
    view.x += x - last.x;
    view.y += y - last.y;
    draw();
  } else if (pointers.size === 2) {
    moved = true;
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(x - other.x, y - other.y);
    if (before > 0) zoom(after / before, (x + other.x) / 2, (y + other.y) / 2);
  }
  pointers.set(event.pointerId, { x, y });
});
canvas.addEventListener("pointerup", (event) => {
  pointers.delete(event.pointerId);
  canvas.classList.remove("dragging");
  if (moved || event.button !== 0) return;
  const spot = hit(event.offsetX, event.offsetY);
  if (onSign(spot)) { selected = spot.item; toggle(spot.item); select(spot.item); }
  else select(spot.item);
});
canvas.addEventListener("pointercancel", (event) => { pointers.delete(event.pointerId); canvas.classList.remove("dragging"); });
canvas.addEventListener("pointerleave", () => { hovered = null; byId("tip").hidden = true; draw(); });
canvas.addEventListener("dblclick", (event) => {
  const spot = hit(event.offsetX, event.offsetY);
  if (spot.item && spot.item.isBox && !onSign(spot)) { toggle(spot.item); select(spot.item); }
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? view.h : 1;
  if (event.shiftKey) { view.x -= (event.deltaX || event.deltaY) * unit; draw(); return; }
  zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), event.offsetX, event.offsetY);
}, { passive: false });

function hover(x, y) {
  const { item } = hit(x, y), tip = byId("tip");
  canvas.classList.toggle("over", Boolean(item));
  if (item !== hovered) { hovered = item; draw(); }
  if (!item || (item.isBox && item.open)) { tip.hidden = true; return; }
  tip.replaceChildren(make("b", { textContent: item.title }), make("span", { textContent: item.isBox ? `${text(item.raw.path)} · ${item.sub}` : [item.raw.kind === "op" ? text(item.raw.op) : item.raw.kind, text(item.raw.name), item.raw.out.map(text).join(", ")].filter(Boolean).join(" · ") }));
  tip.hidden = false;
  tip.style.left = `${Math.min(x + 14, view.w - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(y + 16, view.h - tip.offsetHeight - 8)}px`;
}

function mapMove(event) {
  if (event.type === "pointerdown") map.setPointerCapture(event.pointerId);
  else if (!map.hasPointerCapture(event.pointerId)) return;
  view.x = view.w / 2 - event.offsetX / mapX * view.k;
  view.y = view.h / 2 - event.offsetY / mapY * view.k;
  draw();
}
map.addEventListener("pointerdown", mapMove);
map.addEventListener("pointermove", mapMove);

/* Arrow keys follow the edges of the selected item; without a selection they pan. */
function walk(direction) {
  if (!selected) return false;
  const item = showing(selected);
  if (item.isBox && item.open) {
    if (direction !== "down") return false;
    goTo(item.children[0], false);
    return true;
  }
  let next = null;
  if (direction === "down" || direction === "up") {
    const options = [];
    for (const net of item.nets) {
      if (direction === "down" && net.from === item) options.push(...net.targets);
      if (direction === "up" && net.from !== item) options.push(net.from);
    }
    const gap = (o) => Math.abs(o.X + o.w / 2 - item.X - item.w / 2) + Math.abs(o.Y - item.Y);
    next = options.sort((a, b) => gap(a) - gap(b))[0];
  } else {
    const sign = direction === "right" ? 1 : -1;
    const level = item.parent.children.filter((o) => (o.X - item.X) * sign > 0 && Math.abs(o.Y + o.h / 2 - item.Y - item.h / 2) < 40);
    next = level.sort((a, b) => Math.abs(a.X - item.X) - Math.abs(b.X - item.X))[0];
  }
  if (next) goTo(next, false);
  return true;
}

const KEYS = [
  ["/", "search"], ["Enter", "in the search: show the match; otherwise open or close the module"], ["↑ ↓", "select an input, or a reader (without a selection: pan)"],
  ["← →", "select a neighbour (without a selection: pan)"], ["Shift + arrows", "pan"], ["+ −", "zoom"], ["0", "show everything"],
  ["] [", "open or close one level of modules"], ["s", "statistics"], ["d", "light or dark"], ["Backspace", "select the enclosing module"], ["Esc", "clear the selection"],
  ...(data.diff ? [["n p", "select the next or previous change"]] : []),
];
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target === byId("search")) { searchKey(event); return; }
  if (byId("help").open) return;
  if (event.key === "Enter" && target !== canvas && target !== document.body) return;
  const step = 80, pan = { ArrowUp: [0, step], ArrowDown: [0, -step], ArrowLeft: [step, 0], ArrowRight: [-step, 0] }[event.key];
  if (pan) {
    if (target.closest && target.closest("aside")) return;
    if (event.shiftKey || !walk(event.key.slice(5).toLowerCase())) { view.x += pan[0]; view.y += pan[1]; draw(); }
  } else if (event.key === "/") byId("search").select();
  else if (event.key === "+" || event.key === "=") zoom(1.25, view.w / 2, view.h / 2);
  else if (event.key === "-") zoom(0.8, view.w / 2, view.h / 2);
  else if (event.key === "0") fit(true);
  else if (event.key === "]") openTo(Math.min(maxDepth, level + 1));
  else if (event.key === "[") openTo(Math.max(0, level - 1));
  else if (event.key === "d") byId("theme").click();
  else if (event.key === "s") tab("stats");
  else if (diff && (event.key === "n" || event.key === "p")) nextChange(event.key === "n" ? 1 : -1);
  else if (event.key === "?") byId("keys").click();
  else if (event.key === "Escape") { hits = new Set(); select(null); }
  else if (event.key === "Enter") { const item = selected && showing(selected); if (item && item.isBox) { toggle(item); select(item); } }
  else if (event.key === "Backspace") { const box = selected && showing(selected).parent; if (box && box !== top) goTo(box, false); }
  else return;
  event.preventDefault();
});
function searchKey(event) {
  const listed = Math.min(found.length, 100);
  if (event.key === "Escape") {
    if (byId("results").hidden) { byId("search").value = ""; search(""); canvas.focus(); } else closeSearch();
  } else if (event.key === "Enter") {
    if (byId("results").hidden && found.length) at = (at + (event.shiftKey ? listed - 1 : 1)) % listed;
    choose();
    closeSearch();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!listed) return;
    byId("results").hidden = false;
    at = (at + (event.key === "ArrowDown" ? 1 : listed - 1)) % listed;
    mark();
  } else return;
  event.preventDefault();
}
byId("search").addEventListener("input", (event) => search(event.target.value));
byId("search").addEventListener("focus", () => { if (found.length) byId("results").hidden = false; });
document.addEventListener("pointerdown", (event) => { if (!byId("searchbox").contains(event.target)) closeSearch(); });

function setTheme(name) {
  root.dataset.theme = name;
  hue = HUES[name];
  drawMap();
  draw();
}
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));

for (const [id, action] of Object.entries({
  less: () => openTo(Math.max(0, level - 1)), more: () => openTo(Math.min(maxDepth, level + 1)),
  all: () => openTo(maxDepth), none: () => openTo(0), fit: () => fit(true),
  theme: () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"),
  keys: () => byId("help").showModal(),
  "tab-details": () => tab("details"), "tab-stats": () => tab("stats"), "tab-changes": () => tab("changes"),
})) byId(id).addEventListener("click", action);
{
  const list = make("dl");
  for (const [keys, what] of KEYS) list.append(make("dt", null, make("kbd", { textContent: keys })), make("dd", { textContent: what }));
  byId("help").append(make("h2", { textContent: "Keys" }), list, make("button", { textContent: "Close", click: () => byId("help").close() }));
}

/* #open=all or #open=2, #select=<node name or module path>, #search=<words>, #theme=dark, #fit=all */
function fromFragment() {
  const wish = new URLSearchParams(location.hash.slice(1));
  if (HUES[wish.get("theme")]) setTheme(wish.get("theme"));
  if (wish.has("open")) openTo(wish.get("open") === "all" ? maxDepth : Math.min(maxDepth, Math.max(0, parseInt(wish.get("open"), 10) || 0)));
  if (wish.get("fit") === "all") fit(true);
  if (wish.has("select")) {
    const name = wish.get("select");
    const item = boxes.find((b) => text(b.raw.path) === name) || vertices.find((v) => text(v.raw.name) === name);
    if (item) goTo(item, false);
    else say(`no node or module is named ${name}`);
  }
  if (wish.has("search")) query(wish.get("search"));
}
window.addEventListener("hashchange", fromFragment);
new ResizeObserver(resize).observe(byId("stage"));

byId("model").textContent = data.model;
root.dataset.theme = prefersDark.matches ? "dark" : "light";
hue = HUES[root.dataset.theme];
resize();
showStatistics();
showChanges();
showDetails();
tab(home);
openTo(firstDepth());
fromFragment();
render();
