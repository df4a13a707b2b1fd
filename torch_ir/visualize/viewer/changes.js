/* A page that compares two graphs: the list of changes, and their marks in the drawing. */

const STATES = { added: ["#1f9d63", "+"], removed: ["#d64545", "−"], changed: ["#c98a06", "~"] };
const diff = data.diff || null;
const changed = [];

if (diff) {
  for (const vertex of vertices) {
    if (!vertex.raw.change) continue;
    changed.push(vertex);
    for (let box = vertex.parent; box !== top; box = box.parent) box.changes = (box.changes || 0) + 1;
  }
  for (const box of boxes) if (box.changes) box.sub += ` · ${plural(box.changes, "change")}`;
}

/* The mark of an item: its own state, or "changed" for a closed module with changes inside. */
function stateOf(item) { return item.isBox ? (item.changes && !item.open ? "changed" : null) : item.raw.change || null; }
function markChange(item) {
  const state = stateOf(item);
  if (!state) return;
  rounded(item, 9, 3);
  ctx.strokeStyle = STATES[state][0];
  ctx.lineWidth = Math.max(3, 2 / view.k);
  ctx.setLineDash(state === "removed" ? [6, 4] : []);
  ctx.stroke();
  ctx.setLineDash([]);
}
function changesOf(item) {
  const rows = diff.changes.filter((row) => row[6] === item.id).map(([, , , what, before, after]) => [what || "node", before && after ? `${before} → ${after}` : before || after]);
  return rows.length ? [pairs(rows)] : [make("p", { class: "sub", textContent: "The type of a weight differs." })];
}
let walked = -1;
function nextChange(step) {
  if (!changed.length) return;
  walked = (walked + step + changed.length) % changed.length;
  goTo(changed[walked], false);
}

function showChanges() {
  if (!diff) return;
  const panel = byId("changes"), numbers = { added: 0, removed: 0, changed: 0 };
  for (const [state] of diff.changes) numbers[state]++;
  byId("tab-changes").hidden = false;
  panel.append(broken(make("h2"), `${diff.before} → ${diff.after}`));
  const legend = make("p", { class: "legend" });
  for (const [state, [color, sign]] of Object.entries(STATES)) {
    const dot = make("b", { textContent: `${sign} ${numbers[state].toLocaleString("en")} ${state}` });
    dot.style.color = color;
    legend.append(dot, " ");
  }
  panel.append(legend);
  if (!diff.changes.length) panel.append(make("p", { class: "sub", textContent: "The graphs are equal." }));
  const list = make("ul", { class: "list changes" });
  const add = (from, to) => {
    for (const [state, kind, name, what, before, after, vertex] of diff.changes.slice(from, to)) {
      const sign = make("b", { textContent: STATES[state][1] + " " });
      sign.style.color = STATES[state][0];
      const title = broken(vertex < 0 ? make("span") : make("button", { class: "link", click: () => goTo(vertices[vertex]) }), `${kind} ${name}`);
      const row = make("li", null, sign, title);
      const line = (mark, value) => { if (value) row.append(broken(make("div", { class: "mono side" }), `${mark} ${what && before && after ? what + ": " : ""}${value}`)); };
      line("−", before);
      line("+", after);
      list.append(row);
    }
    if (diff.changes.length > to) {
      const more = make("button", { class: "link", textContent: `${diff.changes.length - to} more`, click: () => { more.remove(); add(to, to + 500); } });
      list.append(more);
    }
  };
  add(0, 200);
  panel.append(list);
}
