/* The canvas: draws only what is on the screen. */

const view = { x: 0, y: 0, k: 1, w: 0, h: 0, dpr: 1 };
let selected = null, hovered = null, hits = new Set(), frame = 0, screen = null;

function draw() { if (!frame) frame = requestAnimationFrame(() => { frame = 0; render(); }); }

function render() {
  const t0 = performance.now();
  const { w, h, dpr, k } = view;
  ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
  ctx.fillStyle = hue.page;
  ctx.fillRect(0, 0, w, h);
  ctx.setTransform(dpr * k, 0, 0, dpr * k, dpr * view.x, dpr * view.y);
  screen = { x0: -view.x / k, y0: -view.y / k, x1: (w - view.x) / k, y1: (h - view.y) / k };
  const lit = new Set();
  for (const item of [selected, hovered]) {
    if (!item) continue;
    if (item.isBox && item.open) for (const p of item.pieces?.values() || []) { if (!p.src || p.leaves) lit.add(p.net); }
    else for (const net of showing(item).nets || []) lit.add(net);
  }
  const later = [];
  drawInside(top, screen, lit, later);
  for (const paint of later) paint();
  if (diff) for (const item of new Set(changed.map(showing))) if (!outside(item, screen)) markChange(item);
  for (const item of hits) outline(showing(item), hue.hit, 2.5);
  if (selected) outline(showing(selected), hue.accent, 2.5);
  timing.draw = performance.now() - t0;
  byId("status").textContent = `${drawnItems.toLocaleString("en")} of ${plural(vertices.length, "symbol")} (${kinds}) · laid out in ${(timing.nets + timing.layout).toFixed(0)} ms · drawn in ${timing.draw.toFixed(0)} ms · ${Math.round(k * 100)} %`;
  frameMap(screen);
}

function outside(item, s) { return item.X > s.x1 || item.X + item.w < s.x0 || item.Y > s.y1 || item.Y + item.h < s.y0; }

function drawInside(box, s, lit, later) {
  const k = view.k, X = box.X, Y = box.Y;
  // All lines of a box in one stroke; highlighted lines are drawn again on top.
  const width = Math.max(1.2, 0.7 / k);
  const dashed = [], seen = [];
  ctx.beginPath();
  for (const path of box.paths) {
    if (path.x0 + X > s.x1 || path.x1 + X < s.x0 || path.y0 + Y > s.y1 || path.y1 + Y < s.y0) continue;
    if (lit.has(path.net)) { later.push(() => strokePath(path, X, Y, hue.accent, Math.max(2, 1.2 / k), true)); continue; }
    if (path.net.calls) { dashed.push(path); continue; }
    trace(path, X, Y);
    seen.push(path);
  }
  ctx.strokeStyle = hue.edge;
  ctx.lineWidth = width;
  ctx.stroke();
  for (const path of dashed) { ctx.setLineDash([5, 4]); strokePath(path, X, Y, hue.edge, width, true); ctx.setLineDash([]); }
  if (k > 0.3) {
    ctx.beginPath();
    for (const path of seen) arrowHeads(path, X, Y);
    ctx.fillStyle = hue.edge;
    ctx.fill();
  }
  if (k > 0.5) {
    ctx.font = F_SHAPE;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.fillStyle = hue.label;
    ctx.strokeStyle = box === top ? hue.page : hue.fills[box.depth % 2];
    ctx.lineWidth = 4;
    ctx.lineJoin = "round";
    // A shape is repeated at the border of a box only if the start of the line is off the screen.
    for (const path of seen) if (!path.repeated || outside(path.net.from, s)) label(path, X, Y);
  }
  for (const child of box.children) {
    if (outside(child, s)) continue;
    if (child.isBox && child.open) { openBox(child, k); drawInside(child, s, lit, later); boxTitle(child, k); }
    else symbol(child, k);
  }
}

function trace(path, X, Y) {
  const ops = path.ops;
  let px = 0, py = 0, cx = 0, cy = 0;
  for (let i = 0; i < ops.length; i += 3) {
    const x = ops[i + 1] + X, y = ops[i + 2] + Y;
    switch (ops[i]) {
      case 0: ctx.moveTo(x, y); break;
      case 1: ctx.lineTo(x, y); break;
      case 2: { const bend = Math.max(8, (y - py) * 0.5); if (Math.abs(x - px) < 0.5) ctx.lineTo(x, y); else ctx.bezierCurveTo(px, py + bend, x, y - bend, x, y); break; }
      case 3: cx = x; cy = y; continue;
      default: ctx.quadraticCurveTo(cx, cy, x, y);
    }
    px = x;
    py = y;
  }
}
function arrowHeads(path, X, Y) {
  for (let i = 0; i < path.arrows.length; i += 2) {
    const x = path.arrows[i] + X, y = path.arrows[i + 1] + Y;
    ctx.moveTo(x, y);
    ctx.lineTo(x - 3.6, y - 7);
    ctx.lineTo(x + 3.6, y - 7);
    ctx.closePath();
  }
}
function label(path, X, Y) {
  ctx.strokeText(path.net.label, path.labelX + X, path.labelY + Y);
  ctx.fillText(path.net.label, path.labelX + X, path.labelY + Y);
}
function strokePath(path, X, Y, color, width, heads) {
  ctx.beginPath();
  trace(path, X, Y);
  ctx.strokeStyle = color;
  ctx.lineWidth = width;
  ctx.stroke();
  if (!heads) return;
  ctx.beginPath();
  arrowHeads(path, X, Y);
  ctx.fillStyle = color;
  ctx.fill();
  if (view.k > 0.4 && (!path.repeated || outside(path.net.from, screen))) {
    ctx.font = F_SHAPE;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.strokeStyle = hue.page;
    ctx.lineWidth = 4;
    label(path, X, Y);
  }
}

function rounded(item, r, grow = 0) {
  ctx.beginPath();
  ctx.roundRect(item.X - grow, item.Y - grow, item.w + 2 * grow, item.h + 2 * grow, r);
}
function outline(item, color, width) {
  rounded(item, 9, 2);
  ctx.strokeStyle = color;
  ctx.lineWidth = Math.max(width, 1.6 / view.k);
  ctx.stroke();
}

function openBox(box, k) {
  rounded(box, 10);
  ctx.fillStyle = hue.fills[box.depth % 2];
  ctx.fill();
  ctx.strokeStyle = box === hovered ? hue.accent : hue.border;
  ctx.lineWidth = Math.max(1, 0.6 / k);
  ctx.stroke();
}
function boxTitle(box, k) {
  if (k < 0.22) { if (box.h * k > 14 && box.w * k > 40) farTitle(box, k); return; }
  const title = clip(box.title, 60), wide = measure(F_HEAD, title) + measure(F_SUB, clip(box.sub, 60)) + 40;
  ctx.fillStyle = hue.fills[box.depth % 2];
  ctx.globalAlpha = 0.88;
  ctx.fillRect(box.X + 6, box.Y + 5, Math.min(wide, box.w - 12), HEAD - 10);
  ctx.globalAlpha = 1;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  glyph(box.X + 16, box.Y + HEAD / 2, false);
  ctx.font = F_HEAD;
  ctx.fillStyle = hue.text;
  ctx.fillText(title, box.X + 28, box.Y + HEAD / 2);
  ctx.font = F_SUB;
  ctx.fillStyle = hue.muted;
  ctx.fillText(clip(box.sub, 60), box.X + 36 + measure(F_HEAD, title), box.Y + HEAD / 2);
}
/* At a small scale, the names of modules are drawn in screen size, so that they stay readable. */
function farTitle(box, k) {
  const size = 11 / k;
  ctx.font = `600 ${size}px ${FONT}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.fillStyle = hue.muted;
  if (measure(F_HEAD, box.title) < box.w * k - 6) ctx.fillText(box.title, box.X + 4 / k, box.Y + 3 / k);
}
function glyph(x, y, plus) {
  ctx.strokeStyle = hue.module;
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  ctx.moveTo(x - 4, y);
  ctx.lineTo(x + 4, y);
  if (plus) { ctx.moveTo(x, y - 4); ctx.lineTo(x, y + 4); }
  ctx.stroke();
}

function symbol(item, k) {
  const color = hue[item.category];
  if (k < 0.2) {
    ctx.fillStyle = color;
    ctx.globalAlpha = 0.75;
    ctx.fillRect(item.X, item.Y, item.w, item.h);
    ctx.globalAlpha = 1;
    return;
  }
  const round = item.isBox ? 10 : item.raw.kind === "op" ? 7 : 14;
  rounded(item, round);
  ctx.fillStyle = item.isBox ? hue.closed : hue.card;
  ctx.fill();
  ctx.strokeStyle = item === hovered ? hue.accent : item.isBox || item.raw.kind !== "op" ? color : hue.border;
  ctx.lineWidth = item === hovered ? 1.8 : 1.1;
  ctx.stroke();
  const middle = item.Y + item.h / 2;
  ctx.textBaseline = "middle";
  if (item.isBox) {
    if (k > 0.3) glyph(item.X + item.w - 15, item.Y + 15, true);
    ctx.textAlign = "left";
    ctx.font = F_LABEL;
    ctx.fillStyle = hue.text;
    ctx.fillText(clip(item.title, 40), item.X + 13, item.Y + 17);
    ctx.font = F_SUB;
    ctx.fillStyle = hue.muted;
    ctx.fillText(clip(item.sub, 52), item.X + 13, item.Y + 34);
    return;
  }
  if (item.raw.kind === "op") {
    ctx.save();
    rounded(item, round);
    ctx.clip();
    ctx.fillStyle = color;
    ctx.fillRect(item.X, item.Y, 5, item.h);
    ctx.restore();
  }
  ctx.textAlign = "center";
  ctx.font = F_LABEL;
  ctx.fillStyle = item.raw.kind === "op" ? hue.text : color;
  ctx.fillText(clip(item.title, 40), item.X + item.w / 2 + (item.raw.kind === "op" ? 2 : 0), middle + 0.5);
}

/* The overview map: symbols are drawn once per layout, the frame of the view once per drawing. */
let mapImage = null, mapX = 1, mapY = 1;
function drawMap() {
  // A deep stack is thousands of times as high as wide, so each direction has its own scale.
  const scale = Math.min(168 / (top.w || 1), 230 / (top.h || 1));
  const w = Math.max(64, top.w * scale), h = Math.max(48, top.h * scale);
  mapX = w / (top.w || 1);
  mapY = h / (top.h || 1);
  mapImage = document.createElement("canvas");
  mapImage.width = map.width = Math.ceil(w * view.dpr);
  mapImage.height = map.height = Math.ceil(h * view.dpr);
  map.style.width = w + "px";
  map.style.height = h + "px";
  const c = mapImage.getContext("2d");
  c.scale(mapX * view.dpr, mapY * view.dpr);
  (function visit(box) {
    for (const child of box.children) {
      if (child.isBox && child.open) {
        c.fillStyle = hue.border;
        c.globalAlpha = 0.25;
        c.fillRect(child.X, child.Y, child.w, child.h);
        c.globalAlpha = 1;
        visit(child);
      } else {
        c.fillStyle = hue[child.category];
        c.fillRect(child.X, child.Y, Math.max(1.2 / mapX, child.w), Math.max(0.8 / mapY, child.h));
      }
    }
  })(top);
}
function frameMap(s) {
  if (!mapImage) return;
  const all = s.x0 <= 0 && s.y0 <= 0 && s.x1 >= top.w && s.y1 >= top.h;
  map.hidden = all;
  if (all) return;
  const fx = mapX * view.dpr, fy = mapY * view.dpr;
  mapCtx.clearRect(0, 0, map.width, map.height);
  mapCtx.drawImage(mapImage, 0, 0);
  mapCtx.strokeStyle = hue.accent;
  mapCtx.lineWidth = 1.5 * view.dpr;
  const x0 = Math.max(0, s.x0 * fx), y0 = Math.max(0, s.y0 * fy);
  const x1 = Math.min(map.width, s.x1 * fx), y1 = Math.min(map.height, s.y1 * fy);
  mapCtx.strokeRect(x0 + 1, y0 + 1, Math.max(3, x1 - x0 - 2), Math.max(3, y1 - y0 - 2));
}

function resize() {
  const area = canvas.getBoundingClientRect(), dpr = window.devicePixelRatio || 1;
  if (area.width === view.w && area.height === view.h && dpr === view.dpr) return;
  view.w = area.width;
  view.h = area.height;
  view.dpr = dpr;
  canvas.width = Math.round(view.w * view.dpr);
  canvas.height = Math.round(view.h * view.dpr);
  if (top.paths) render(); // immediately, because resizing cleared the canvas
}

/* Shows everything if it stays readable, else the full width from the top. */
function fit(whole) {
  const edge = 24;
  const across = (view.w - 2 * edge) / (top.w || 1), down = (view.h - 2 * edge) / (top.h || 1);
  let k = Math.min(across, down, 1.25);
  if (!whole && k < 0.45) k = Math.max(Math.min(across, 1), 0.3);
  view.k = Math.max(k, 0.0005);
  view.x = (view.w - top.w * view.k) / 2;
  view.y = top.h * view.k > view.h ? edge : (view.h - top.h * view.k) / 2;
  draw();
}
function zoom(factor, x, y) {
  const k = Math.min(4, Math.max(0.0005, view.k * factor)), real = k / view.k;
  view.x = x - (x - view.x) * real;
  view.y = y - (y - view.y) * real;
  view.k = k;
  draw();
}
function centre(item) {
  const shown = showing(item);
  if (view.k < 0.6) view.k = 0.9;
  view.x = view.w / 2 - (shown.X + shown.w / 2) * view.k;
  view.y = shown.h * view.k > view.h - 80 ? 40 - shown.Y * view.k : view.h / 2 - (shown.Y + shown.h / 2) * view.k;
  draw();
}

/* Opens or closes a box, and keeps it at its place on the screen. */
function toggle(box, open = !box.open) {
  if (!box.isBox || box === top) return;
  const before = { x: box.X * view.k + view.x, y: box.Y * view.k + view.y, middle: box.X + box.w / 2 };
  const middle = before.middle * view.k + view.x;
  box.open = open;
  relayout();
  const shown = showing(box);
  view.x = middle - (shown.X + shown.w / 2) * view.k;
  view.y = before.y - shown.Y * view.k;
  draw();
  say(`${box.title} ${open ? "opened" : "closed"}`);
  if (selected === box) showDetails();
}
function openTo(depth) {
  for (const box of boxes) box.open = box.depth <= depth && (!box.single || depth === maxDepth);
  level = depth;
  relayout();
  fit(false);
}
let level = 0;
function reveal(item) {
  let changed = false;
  for (let box = item.parent; box; box = box.parent) if (!box.open) { box.open = true; changed = true; }
  if (changed) relayout();
}

/* The depth of the first drawing: the levels that fit in a small number of symbols. */
function firstDepth() {
  let best = 0;
  for (let depth = 1; depth <= maxDepth; depth++) {
    let number = 0;
    for (const vertex of vertices) {
      let d = vertex.parent.depth;
      if (d <= depth) number++;
    }
    for (const box of boxes) if (box.depth === depth + 1) number++;
    if (number > 60) break;
    best = depth;
  }
  return best;
}
