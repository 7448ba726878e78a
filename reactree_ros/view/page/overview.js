// A small map of the whole tree, drawn top-down as in the paper's figure 1: a point for each behaviour, by its status in
// shape and colour. What the outline has in view is marked; a click goes there.

import { Canvas } from "./canvas.js";
import { layout } from "./layout.js";
import { make } from "./text.js";
import { STATUSES } from "./words.js";

const EDGE = 12, CLOSE = 18; // pixels

export class Overview {
  constructor(host, { select }) {
    this._canvas = host.appendChild(make("canvas.overview", { role: "img" }));
    this._inView = new Set();
    this._canvas.addEventListener("click", ({ offsetX, offsetY }) => {
      const near = [...(this._at ?? [])].map(([id, { x, y }]) => [Math.hypot(x - offsetX, y - offsetY), id]).sort(([a], [b]) => a - b)[0];
      if (near?.[0] < CLOSE) select(near[1]);
    });
    this._painted = new Canvas(this._canvas, (on, looks) => this._record?.nodes.length && this._draw(on, looks));
  }

  show(record, moment, selected) {
    [this._record, this._moment, this._selected] = [record, moment, selected];
    this._painted.ask();
  }

  mark(ids) {
    this._inView = new Set(ids);
    this._painted.ask();
  }

  _draw(on, { width, height, colour }) {
    const nodes = this._record.nodes.slice(0, this._record.grown(this._moment));
    const places = layout(nodes, (node) => node.children.filter((child) => child.born <= this._moment));
    let left = 0, right = 1, bottom = 1;
    for (const { x, y } of places.values()) [left, right, bottom] = [Math.min(left, x), Math.max(right, x), Math.max(bottom, y)];
    const across = Math.min(0.5, (width - 2 * EDGE) / (right - left)), down = Math.min(0.25, (height - 2 * EDGE) / bottom);
    const aside = (width - across * (right - left)) / 2;
    this._at = new Map(nodes.map(({ id }) => [id, { x: aside + (places.get(id).x - left) * across, y: EDGE + places.get(id).y * down }]));
    const size = Math.max(2, Math.min(5, 55 * across));
    const counts = new Map();
    on.fillStyle = colour("tokens");
    for (const id of this._inView) if (this._at.has(id)) on.fillRect(this._at.get(id).x - size - 3, this._at.get(id).y - size - 3, 2 * size + 6, 2 * size + 6);
    on.strokeStyle = colour("edge");
    on.beginPath();
    for (const { id, parent } of nodes) if (this._at.has(parent)) (on.moveTo(this._at.get(parent).x, this._at.get(parent).y), on.lineTo(this._at.get(id).x, this._at.get(id).y));
    on.stroke();
    for (const node of nodes) {
      const status = this._record.status(node, this._moment);
      counts.set(status, (counts.get(status) ?? 0) + 1);
      on.fillStyle = on.strokeStyle = colour(status || "idle");
      point(on, status, this._at.get(node.id), size);
    }
    const here = this._at.get(this._selected);
    if (here) {
      on.strokeStyle = colour("ink");
      on.lineWidth = 2;
      on.strokeRect(here.x - size - 3, here.y - size - 3, 2 * size + 6, 2 * size + 6);
    }
    const said = [...counts].map(([status, many]) => `${many} ${STATUSES[status][1]}`).join(", ");
    this._canvas.setAttribute("aria-label", `Map of the whole tree: ${nodes.length} behaviours, ${said}`);
  }
}

/** Done: a disc; failed: a cross; running: a triangle; not reached: a ring; everything else: a square. */
function point(on, status, { x, y }, size) {
  on.beginPath();
  on.lineWidth = status ? 2 : 1.2;
  if (status === "success" || !status) on.arc(x, y, status ? size : size - 0.5, 0, 2 * Math.PI);
  else if (status === "failure") (on.moveTo(x - size, y - size), on.lineTo(x + size, y + size), on.moveTo(x + size, y - size), on.lineTo(x - size, y + size));
  else if (status === "running") (on.moveTo(x - size, y - size), on.lineTo(x + size, y), on.lineTo(x - size, y + size));
  else on.rect(x - size, y - size, 2 * size, 2 * size);
  if (!status || status === "failure") on.stroke();
  else on.fill();
}
