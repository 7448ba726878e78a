// The tree, drawn top-down as in the paper's figure 1. Only visible parts are in the document; zoomed out, nodes are
// points on a canvas. Nodes glide to new places, and the chosen one keeps its place on the screen.

import { layout, LEVEL } from "./layout.js";
import { latest } from "./record.js";
import { visible } from "./text.js";
import { FLOWS, STATUSES } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 17, HALF = 15; // of a circle, of a square
const FAR = 0.3; // below this scale, nodes have no names
const GLIDE = 240; // milliseconds
const SMALLEST = 0.02, LARGEST = 2.5, READABLE = 0.55;
const ROOM = 56; // kept free for the buttons next to the tree
const LINE = 21, LINES = 3; // characters and lines of a name
const LONGEST_DASHED = 3000; // browsers draw dashes slowly
const MOST_KEPT = 100; // nodes at the end of the active path that are drawn even when zoomed out
const BELOW = RADIUS + 20, HIGH = 14; // start of a name, height of its lines
const MARKS = {
  success: "M-6.5 .5l4.3 5L6.5-5.5",
  claimed: "M-6 1.5h12M-6 6h12M-2.5-5.5q2.5-3 4 0t-1.5 4",
  partly: "M0-6.5a6.5 6.5 0 0 0 0 13zM0-6.5a6.5 6.5 0 0 1 0 13",
  failure: "M-5-5l10 10M5-5l-10 10",
  interrupted: "M-3.5-6v12M3.5-6v12",
  running: "M-4-6.5l10.5 6.5-10.5 6.5z",
};
export const SPOKEN = Object.fromEntries(Object.entries(STATUSES).map(([status, [, words]]) => [status, words]));

export class TreeView {
  /** Draw into an element; `select(id)` is called with the node that a person chooses. */
  constructor(host, { select, label = "Behaviour tree" }) {
    this._select = select;
    this._folded = new Set();
    this._places = new Map(); // target places
    this._now = new Map(); // current places
    this._from = new Map();
    this._drawn = new Map(); // id → element
    this._edges = new Map();
    this._camera = { x: 0, y: 0, k: 1 };
    this._auto = true;
    this._fresh = true;
    this._stretch = 1; // of the levels: a wide tree would be a line when zoomed out
    this._prefix = `t${TreeView.count++}n`;
    this.selected = null;
    this.moment = -1;
    this._svg = element("svg", { class: "tree", role: "tree", tabindex: 0, "aria-label": label });
    this._root = this._svg.appendChild(element("g"));
    this._lines = this._root.appendChild(element("g", { class: "edges", "aria-hidden": true }));
    this._nodes = this._root.appendChild(element("g", { role: "presentation" }));
    this._canvas = document.createElement("canvas");
    this._canvas.className = "far";
    this._canvas.hidden = true;
    this._canvas.setAttribute("aria-hidden", "true");
    const box = document.createElement("div");
    box.className = "tree-box";
    box.append(this._canvas, this._svg);
    host.append(box);
    this._size = { width: 800, height: 600 };
    new ResizeObserver(([entry]) => {
      if (!entry.contentRect.width || !entry.contentRect.height) return; // hidden
      this._size = entry.contentRect;
      if (this._auto) this._fit();
      this._ask();
    }).observe(this._svg);
    this._listen();
  }

  // ------------------------------------------------------------------ display

  /** Show a record as it was at a moment. */
  show(record, moment) {
    if (record !== this.record) {
      this.record = record;
      this._fresh = true;
      this._grown = -1;
      for (const map of [this._places, this._now, this._from]) map.clear();
      this._folded.clear();
    }
    this.moment = moment;
    const grown = record.grown(moment);
    if (grown !== this._grown) {
      this._grown = grown;
      this._lay();
    }
    this._active = record.activePath(moment);
    this._activeIds = new Set(this._active.map((node) => node.id));
    this._kept = new Set(this._active.slice(-MOST_KEPT).map((node) => node.id));
    if (this._auto) this._follow();
    this._ask();
  }

  select(id, { reveal = false } = {}) {
    this.selected = id;
    const place = this._places.get(id);
    if (place && reveal) this._reveal(place);
    this._ask();
  }

  fold(id) {
    if (!this._children(this.record.byId.get(id), true).length) return;
    if (!this._folded.delete(id)) this._folded.add(id);
    this._anchor(id);
    this._lay();
    this._ask();
  }

  isFolded(id) {
    return this._folded.has(id);
  }

  fit() {
    this._auto = true;
    this._fit();
    this._ask();
  }

  zoom(factor, at = { x: this._size.width / 2, y: this._size.height / 2 }) {
    this._auto = false;
    this._toward = null;
    const { x, y, k } = this._camera;
    const scale = Math.min(LARGEST, Math.max(Math.min(SMALLEST, k), k * factor));
    this._camera = { x: at.x - ((at.x - x) * scale) / k, y: at.y - ((at.y - y) * scale) / k, k: scale };
    if (scale >= FAR && this._stretch !== 1) this._unstretch(at);
    this._ask();
  }

  /** Undo the stretch of the levels, around the node nearest to a point. */
  _unstretch(point) {
    this._stretch = 1;
    this._anchor(this._nearest(point)?.node.id);
    this._lay();
  }

  // ------------------------------------------------------------------ places

  _children(node, all = false) {
    if (!all && this._folded.has(node.id)) return [];
    const grown = node.children;
    return grown.length && grown.at(-1).born > this.moment ? grown.filter((child) => child.born <= this.moment) : grown;
  }

  _lay() {
    const shown = [];
    const hidden = new Set();
    for (let i = 0; i < this._grown; i++) {
      const node = this.record.nodes[i];
      if (hidden.has(node.parent) || this._folded.has(node.parent)) hidden.add(node.id);
      else shown.push(node);
    }
    this._shown = shown;
    this._hidden = hidden;
    if (!this._held) this._anchor(this._looked());
    this._places = layout(shown, (node) => this._children(node));
    if (this._stretch !== 1) for (const place of this._places.values()) place.y *= this._stretch;
    let left = 0, right = 0, bottom = 0;
    for (const { x, y } of this._places.values()) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      bottom = Math.max(bottom, y);
    }
    this._bounds = { left: left - 74, right: right + 74, top: -RADIUS - 14, bottom: bottom + 84 };
    this._from = new Map();
    for (const node of shown) {
      const here = this._now.get(node.id) ?? this._now.get(node.parent) ?? this._places.get(node.parent);
      this._from.set(node.id, here ? { ...here } : this._places.get(node.id));
    }
    this._now = new Map(this._from);
    this._began = performance.now();
    if (this._fresh && shown.length) {
      this._fresh = false;
      this._now = new Map(this._places);
      this._from = new Map(this._places);
      if (this._auto) this._fit(true);
    }
  }

  _looked() {
    if (this._onScreen(this.selected)) return this.selected;
    return this._active?.findLast((node) => this._onScreen(node.id))?.id ?? this.record.nodes[0]?.id;
  }

  _onScreen(id) {
    const place = this._now.get(id);
    if (!place) return false;
    const { x, y, k } = this._camera;
    const [sx, sy] = [place.x * k + x, place.y * k + y];
    return sx > 0 && sy > 0 && sx < this._size.width && sy < this._size.height;
  }

  /** Keep a node where it is on the screen while others glide. */
  _anchor(id) {
    const place = this._now.get(id);
    const { x, y, k } = this._camera;
    this._held = place ? { id, x: place.x * k + x, y: place.y * k + y } : null;
  }

  // ------------------------------------------------------------------ the camera

  _fit(atOnce = false) {
    if (!this._bounds) return;
    const { width, height } = this._size;
    const isWide = width > 500; // buttons are next to the tree, otherwise below it
    const room = isWide ? width - ROOM : width, tall = isWide ? height : height - ROOM;
    const across = (room - 24) / (this._bounds.right - this._bounds.left);
    const high = (this._bounds.bottom - this._bounds.top) / this._stretch;
    const stretch = across < FAR ? Math.max(1, (0.6 * height) / (across * high)) : 1;
    if (Math.abs(stretch / this._stretch - 1) > 0.02) {
      this._stretch = stretch;
      this._lay();
    }
    const { left, right, top, bottom } = this._bounds;
    const k = Math.min(1.15, across, tall / (bottom - top));
    this._go({ k, x: room / 2 - (k * (left + right)) / 2, y: Math.max(0, (tall - k * (bottom - top)) / 3) - k * top }, atOnce);
  }

  /** Unless a person has moved the tree, show all of it while it is readable, then the running part. */
  _follow() {
    if (!this._bounds) return;
    const { left, right, top, bottom } = this._bounds;
    const { width, height } = this._size;
    const fitting = Math.min(width / (right - left), (height * this._stretch) / (bottom - top));
    const target = this._toward ?? this._camera;
    if (fitting >= READABLE || !this._active.length) {
      const inside = left * target.k + target.x >= -1 && right * target.k + target.x <= width + 1 && bottom * target.k + target.y <= height + 1;
      if (!inside || (fitting < READABLE && !this._active.length)) this._fit();
      return;
    }
    if (this._stretch !== 1) {
      this._stretch = 1;
      this._lay();
    }
    const place = this._places.get(this._active.findLast((node) => this._places.has(node.id))?.id);
    if (place) this._reveal(place, Math.max(READABLE + 0.2, Math.min(target.k, 1)));
  }

  _reveal(place, k = Math.max(this._camera.k, READABLE)) {
    const target = this._toward ?? this._camera;
    const { width, height } = this._size;
    const [sx, sy] = [place.x * target.k + target.x, place.y * target.k + target.y];
    const inside = sx > 0.12 * width && sx < 0.88 * width && sy > 0.08 * height && sy < 0.8 * height;
    if (inside && target.k >= READABLE) return;
    this._go({ k, x: width / 2 - k * place.x, y: height * 0.45 - k * place.y });
  }

  _go(camera, atOnce = false) {
    this._held = null;
    if (atOnce || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this._camera = camera;
      this._toward = null;
      return;
    }
    this._toward = camera;
    this._left = { ...this._camera };
    this._leftAt = performance.now();
  }

  // ------------------------------------------------------------------ frames

  _ask() {
    if (!this._asked) {
      this._asked = true;
      requestAnimationFrame((now) => this._frame(now));
    }
  }

  _frame(now) {
    this._asked = false;
    if (!this.record || !this._shown) return;
    const gliding = this._glide(now);
    const going = this._move(now);
    this._draw();
    if (gliding || going) this._ask();
  }

  _glide(now) {
    if (this._began === undefined) return false;
    const share = ease((now - this._began) / GLIDE);
    for (const node of this._shown) {
      const from = this._from.get(node.id), to = this._places.get(node.id), at = this._now.get(node.id);
      if (!from || from === to) continue;
      if (share === 1 || !at || at === to || at === from) this._now.set(node.id, between(from, to, share));
      else [at.x, at.y] = [from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share];
    }
    if (this._held) {
      const at = this._now.get(this._held.id);
      if (at) {
        this._camera.x = this._held.x - at.x * this._camera.k;
        this._camera.y = this._held.y - at.y * this._camera.k;
      }
    }
    if (share < 1) return true;
    this._began = undefined;
    this._held = null;
    return false;
  }

  _move(now) {
    if (!this._toward) return false;
    const share = ease((now - this._leftAt) / GLIDE);
    const { x, y } = between(this._left, this._toward, share);
    this._camera = { x, y, k: this._left.k + (this._toward.k - this._left.k) * share };
    if (share === 1) this._toward = null;
    return share < 1;
  }

  _draw() {
    const { x, y, k } = this._camera;
    this._root.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    const far = k < FAR;
    this._svg.classList.toggle("is-far", far);
    const margin = 90;
    const [left, top] = [-x / k - margin, -y / k - LEVEL];
    const [right, bottom] = [(this._size.width - x) / k + margin, (this._size.height - y) / k + LEVEL];
    const drawn = new Set(), edges = new Set();
    this._canvas.hidden = !far;
    if (far) this._drawFar();
    for (const node of this._shown) {
      const at = this._now.get(node.id);
      const above = this._now.get(node.parent);
      const isNear = at.y > top && at.y < bottom;
      if (!far && above && isNear && Math.min(at.x, above.x) < right && Math.max(at.x, above.x) > left) {
        edges.add(node.id);
        this._drawEdge(node, above, at);
      }
      const kept = node.id === this.selected || this._kept.has(node.id);
      if (kept || (!far && isNear && at.x > left && at.x < right)) {
        drawn.add(node.id);
        this._drawNode(node, at);
      }
    }
    prune(this._drawn, drawn);
    prune(this._edges, edges);
    if (this._drawn.has(this.selected)) this._svg.setAttribute("aria-activedescendant", this._prefix + this.selected);
    else this._svg.removeAttribute("aria-activedescendant");
  }

  /** Draw the whole tree on the canvas, with nodes as points. */
  _drawFar() {
    const { x, y, k } = this._camera;
    const { width, height } = this._size;
    const dense = devicePixelRatio || 1;
    [this._canvas.width, this._canvas.height] = [Math.round(width * dense), Math.round(height * dense)];
    const on = this._canvas.getContext("2d");
    on.scale(dense, dense);
    const style = getComputedStyle(this._canvas);
    const goal = Math.min(14, Math.max(3, 40 * k)), flow = 0.6 * goal;
    on.strokeStyle = style.getPropertyValue("--edge");
    on.lineWidth = 0.7;
    on.beginPath();
    for (const node of this._shown) {
      const at = this._now.get(node.id), above = this._now.get(node.parent);
      if (!above) continue;
      on.moveTo(above.x * k + x, above.y * k + y);
      on.lineTo(at.x * k + x, at.y * k + y);
    }
    on.stroke();
    for (const status of ["", "success", "claimed", "partly", "interrupted", "failure", "running"]) { // important ones on top
      on.fillStyle = style.getPropertyValue(`--${status || "idle"}`);
      for (const node of this._shown) {
        if (this.record.status(node, this.moment) !== status) continue;
        const at = this._now.get(node.id);
        const [px, py] = [at.x * k + x, at.y * k + y];
        if (px < -goal || py < -goal || px > width + goal || py > height + goal) continue;
        on.beginPath();
        if (node.isFlow) on.rect(px - flow / 2, py - flow / 2, flow, flow);
        else on.arc(px, py, goal / 2, 0, 2 * Math.PI);
        on.fill();
      }
    }
  }

  _drawEdge(node, above, at) {
    let path = this._edges.get(node.id);
    if (!path) {
      path = this._lines.appendChild(element("path", { class: "edge" }));
      this._edges.set(node.id, path);
    }
    const from = above.y + this._foot(this.record.byId.get(node.parent));
    const middle = (from + at.y) / 2;
    set(path, "d", `M${r(above.x)} ${r(from)}C${r(above.x)} ${r(middle)} ${r(at.x)} ${r(middle)} ${r(at.x)} ${r(at.y)}`);
    const isIdle = this.record.status(node, this.moment) === "" && Math.abs(at.x - above.x) < LONGEST_DASHED;
    set(path, "class", `edge${this._activeIds.has(node.id) ? " active" : ""}${isIdle ? " idle" : ""}`);
  }

  _drawNode(node, at) {
    let group = this._drawn.get(node.id);
    if (!group) {
      group = this._nodes.appendChild(this._made(node));
      this._drawn.set(node.id, group);
    }
    const status = this.record.status(node, this.moment);
    const size = Math.max(1, FAR / this._camera.k);
    set(group, "transform", `translate(${r(at.x)} ${r(at.y)})${size > 1 ? ` scale(${r(size)})` : ""}`);
    const classes = ["node", node.isFlow ? "flow" : "goal", status || "idle"];
    if (this._activeIds.has(node.id)) classes.push("active");
    if (node.id === this.selected) classes.push("selected");
    set(group, "class", classes.join(" "));
    set(group, "aria-selected", String(node.id === this.selected));
    const grown = this._children(node, true);
    const folded = this._folded.has(node.id);
    set(group, "aria-expanded", grown.length ? String(!folded) : null);
    set(group, "aria-label", visible(this._spoken(node, status)));
    set(group.querySelector(".mark"), "d", MARKS[status] ?? "M0 0");
    const doing = status === "running" ? latest(node.doing, this.moment)?.skill : "";
    const hint = folded ? `+${this._under(node)}` : doing || latest(node.robots, this.moment)?.robot || "";
    const said = group.querySelector(".doing");
    if (said.textContent !== visible(short(hint))) said.textContent = visible(short(hint));
  }

  _made(node) {
    const siblings = this.record.byId.get(node.parent)?.children ?? [node];
    const group = element("g", {
      id: this._prefix + node.id,
      role: "treeitem",
      "data-node": node.id,
      "aria-level": this._level(node),
      "aria-posinset": siblings.indexOf(node) + 1,
      "aria-setsize": siblings.length,
    });
    const title = element("title");
    title.textContent = visible(node.name);
    group.append(title);
    if (node.isFlow) {
      group.append(
        element("rect", { class: "halo", x: -HALF - 6, y: -HALF - 6, width: 2 * HALF + 12, height: 2 * HALF + 12, rx: 7 }),
        element("rect", { class: "body", x: -HALF, y: -HALF, width: 2 * HALF, height: 2 * HALF, rx: 3 }),
        element("path", { class: "mark", transform: "translate(27 0) scale(.72)" }),
        text("sign", FLOWS[node.kind]?.[0] ?? "", 5.5),
        text("doing", "", HALF + 16),
      );
      return group;
    }
    const lines = broken(node.name);
    group.append(
      element("circle", { class: "halo", r: RADIUS + 6 }),
      element("circle", { class: "body", r: RADIUS }),
      element("path", { class: "mark" }),
      ...lines.map((line, number) => text("name", visible(line), BELOW + HIGH * number)),
      text("doing", "", BELOW + HIGH * lines.length),
    );
    return group;
  }

  /** Return the distance from a node's middle to its lower end. */
  _foot(node) {
    return node.isFlow ? HALF : (node.foot ??= BELOW + HIGH * broken(node.name).length - 8);
  }

  _level(node) {
    let level = 1;
    for (let one = node; (one = this.record.byId.get(one.parent)); ) level++;
    return level;
  }

  _under(node) {
    const found = [...this._children(node, true)];
    for (const one of found) found.push(...this._children(one, true)); // the loop visits these, too
    return found.length;
  }

  _spoken(node, status) {
    const what = node.isFlow ? node.kind : `agent node: ${node.name.slice(0, 200)}`;
    return `${what}, ${SPOKEN[status]}`;
  }

  // ------------------------------------------------------------------ the person

  _listen() {
    const svg = this._svg;
    const down = new Map();
    let moved = 0;
    svg.addEventListener("pointerdown", (event) => {
      down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      moved = 0;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const was = down.get(event.pointerId);
      if (!was) return;
      const is = { x: event.offsetX, y: event.offsetY };
      moved += Math.abs(is.x - was.x) + Math.abs(is.y - was.y);
      const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
      if (other) this.zoom(distance(is, other) / Math.max(1, distance(was, other)), other);
      else if (moved > 4) this._pan(is.x - was.x, is.y - was.y);
      down.set(event.pointerId, is);
    });
    const up = (event) => {
      const was = down.get(event.pointerId);
      down.delete(event.pointerId);
      if (was && moved <= 4 && event.type === "pointerup") this._click(was, event.detail);
    };
    svg.addEventListener("pointerup", up);
    svg.addEventListener("pointercancel", up);
    svg.addEventListener("dblclick", (event) => {
      const node = this._hit({ x: event.offsetX, y: event.offsetY });
      if (node) this.fold(node.id);
    });
    svg.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), { x: event.offsetX, y: event.offsetY });
      },
      { passive: false },
    );
    svg.addEventListener("keydown", (event) => this._key(event));
  }

  _pan(dx, dy) {
    this._auto = false;
    this._toward = this._held = null;
    this._camera.x += dx;
    this._camera.y += dy;
    this._ask();
  }

  _click(point) {
    const node = this._hit(point);
    if (node) this._select(node.id);
  }

  /** Return the node at a point, or the node whose name is there. */
  _hit(point) {
    const { node, dx, dy } = this._nearest(point) ?? {};
    const { k } = this._camera;
    const named = node && !node.isFlow && k >= FAR && Math.abs(dx) < 62 && dy > 0 && dy < 62;
    return named || Math.hypot(dx, dy) < Math.max(RADIUS + 6, 14 / k) ? node : null;
  }

  /** Return the node nearest to a point, and its distance. */
  _nearest(point) {
    const { x, y, k } = this._camera;
    const [px, py] = [(point.x - x) / k, (point.y - y) / k];
    let best = null;
    for (const node of this._shown ?? []) {
      const at = this._now.get(node.id);
      const [dx, dy] = [px - at.x, py - at.y];
      const far = Math.hypot(dx, dy);
      if (!best || far < best.far) best = { node, dx, dy, far };
    }
    return best;
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.record) return;
    const node = this.record.byId.get(this.selected) ?? this.record.nodes[0];
    if (!node) return;
    const below = this._children(node, true);
    const siblings = node.parent === null ? [node] : this._children(this.record.byId.get(node.parent));
    const place = siblings.indexOf(node);
    const folded = this._folded.has(node.id);
    const going = {
      ArrowDown: () => (folded ? this.fold(node.id) : this._choose(below[0])),
      ArrowUp: () => this._choose(this.record.byId.get(node.parent)),
      ArrowLeft: () => this._choose(siblings[place - 1] ?? this._beside(node, -1)),
      ArrowRight: () => this._choose(siblings[place + 1] ?? this._beside(node, 1)),
      Home: () => this._choose(this.record.nodes[0]),
      End: () => this._choose(this._active.at(-1)),
      Enter: () => this._choose(node),
      " ": () => this.fold(node.id),
    }[event.key];
    if (!going) return;
    event.preventDefault();
    event.stopPropagation();
    if (this.selected === null) this._choose(node);
    else going();
  }

  /** Return the nearest node of the same level to one side. */
  _beside(node, side) {
    const here = this._places.get(node.id);
    let best = null, nearest = Infinity;
    for (const other of this._shown) {
      const at = this._places.get(other.id);
      const ahead = (at.x - here.x) * side;
      if (at.y === here.y && ahead > 0 && ahead < nearest) [best, nearest] = [other, ahead];
    }
    return best;
  }

  _choose(node) {
    if (node) this._select(node.id);
  }
}

TreeView.count = 0;

function element(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function text(kind, words, y) {
  const made = element("text", { class: kind, y });
  made.textContent = words;
  return made;
}

function set(made, name, value) {
  if (value === null) made.removeAttribute(name);
  else if (made.getAttribute(name) !== value) made.setAttribute(name, value);
}

function prune(kept, wanted) {
  for (const [id, made] of kept) {
    if (wanted.has(id)) continue;
    made.remove();
    kept.delete(id);
  }
}

function broken(name) {
  const lines = [""];
  for (const word of name.slice(0, LINE * (LINES + 1)).split(/\s+/)) {
    if (lines.at(-1) && lines.at(-1).length + 1 + word.length > LINE) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  const shown = lines.slice(0, LINES).map(short);
  if (lines.length > LINES || name.length > LINE * (LINES + 1)) shown[LINES - 1] = `${shown.at(-1).slice(0, LINE - 2)} …`;
  return shown;
}

function short(words) {
  return words.length > LINE + 3 ? `${words.slice(0, LINE + 2)}…` : words;
}

function between(from, to, share) {
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}

function distance(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

function ease(share) {
  return share >= 1 ? 1 : 1 - (1 - Math.max(0, share)) ** 3;
}

function r(number) {
  return Math.round(number * 10) / 10;
}
