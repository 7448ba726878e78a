// The tree as an outline: a line for each behaviour, so that every name can be read. Branches that are done fold by
// themselves; the way to what runs, what failed and what is chosen stays open. Only lines in view are in the document.

import { latest } from "./record.js";
import { count, make, seconds, visible } from "./text.js";
import { FLOWS, STATUSES } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW = 26, DEEPEST = 14; // pixels; levels by which a line is indented at most
const AROUND = 10; // lines that are kept above and below those in view
const MARKS = {
  success: "M-4.5 .5l3 3.5L4.5-4",
  claimed: "M-4.5 1h9M-4.5 4.5h9M-2-4q2-2.4 3.2 0t-1.2 3",
  partly: "M0-5a5 5 0 0 0 0 10zM0-5a5 5 0 0 1 0 10",
  failure: "M-3.5-3.5l7 7M3.5-3.5l-7 7",
  interrupted: "M-2.2-4.5v9M2.2-4.5v9",
  running: "M-2.5-4.5l7 4.5-7 4.5z",
};
const ENDED_WELL = new Set(["success", "claimed"]);
export const SPOKEN = Object.fromEntries(Object.entries(STATUSES).map(([status, [, words]]) => [status, words]));

export class TreeView {
  /** Draw into an element; `select(id)` is called with the node that a person chooses, `seen(ids)` with those in view. */
  constructor(host, { select, seen = () => {}, label = "Behaviour tree" }) {
    this._select = select;
    this._seen = seen;
    this._byHand = new Map(); // id → whether a person folded it, or opened it
    this._drawn = new Map(); // id → element
    this._rows = [];
    this._prefix = `t${TreeView.count++}n`;
    this.selected = null;
    this.moment = -1;
    this._list = make("div.rows", { role: "presentation" });
    this.host = host.appendChild(make("div.tree", { role: "tree", tabindex: 0, "aria-label": label }, this._list));
    this.host.addEventListener("scroll", () => this._ask());
    this.host.addEventListener("keydown", (event) => this._key(event));
    this.host.addEventListener("click", (event) => this._click(event));
    new ResizeObserver(() => this._ask()).observe(this.host);
  }

  /** Show a record as it was at a moment; `only`: ids of the nodes that are shown, with the way to them. */
  show(record, moment, only = null) {
    if (record !== this.record) this._byHand.clear();
    const before = this._active?.at(-1)?.id;
    [this.record, this.moment, this._only] = [record, moment, only];
    this._active = record.activePath(moment);
    this._activeIds = new Set(this._active.map((node) => node.id));
    this._lay();
    if (this._active.at(-1)?.id !== before) this.reveal(this.selected);
  }

  /** Choose a node; by hand, the way to it stays open. */
  select(id, { byHand = false } = {}) {
    if (byHand) for (const node of this._above(id)) this._byHand.set(node.id, false);
    const held = byHand && this._top(id); // the line that a person clicks on stays under the pointer
    this.selected = id;
    if (!this.record) return;
    this._lay();
    if (held) this.host.scrollTop = this._rows.findIndex(({ node }) => node.id === id) * ROW - held;
    this.reveal(id);
  }

  fold(id) {
    this._byHand.set(id, !this.isFolded(this.record.byId.get(id)));
    this._lay();
  }

  /** Fold everything, open everything, or (null) leave it to what happens. */
  foldAll(folded) {
    if (!this.record) return; // a click may come before the first event
    this._byHand.clear();
    if (folded !== null) for (const node of this.record.nodes) if (node.parent !== null || !folded) this._byHand.set(node.id, folded);
    this._lay();
    this.reveal(this.selected);
  }

  /** Whether a node's branch is folded: by hand, or as it is done and neither runs, failed nor is chosen below. */
  isFolded(node) {
    if (!this._children(node).length) return false;
    if (this._only) return false;
    return this._byHand.get(node.id) ?? (node.parent !== null && !node.isFlow && ENDED_WELL.has(this.record.status(node, this.moment)) && !this._wayTo.has(node.id));
  }

  reveal(id) {
    const at = this._rows.findIndex(({ node }) => node.id === id);
    const { scrollTop, clientHeight } = this.host;
    if (at < 0 || (at * ROW >= scrollTop && (at + 1) * ROW <= scrollTop + clientHeight)) return;
    this.host.scrollTop = at * ROW - clientHeight / 2;
  }

  _top(id) {
    const at = this._rows.findIndex(({ node }) => node.id === id);
    return at < 0 ? 0 : at * ROW - this.host.scrollTop;
  }

  _above(id) {
    const found = [];
    for (let one = this.record?.byId.get(id); one; one = this.record.byId.get(one.parent)) if (one.id !== id) found.push(one);
    return found;
  }

  _children(node) {
    const grown = node.children;
    return grown.length && grown.at(-1).born > this.moment ? grown.filter((child) => child.born <= this.moment) : grown;
  }

  _lay() {
    this._wayTo = new Set(this._above(this.selected).map((node) => node.id));
    const kept = this._only && new Set(this._only);
    for (const id of this._only ?? []) {
      for (let up = this.record.byId.get(id)?.parent; up !== null && !kept.has(up); up = this.record.byId.get(up).parent) kept.add(up);
    }
    this._rows = [];
    const waiting = this.record.grown(this.moment) ? [{ node: this.record.nodes[0], level: 1 }] : [];
    while (waiting.length) {
      const row = waiting.pop();
      if (kept && !kept.has(row.node.id)) continue;
      this._rows.push(row);
      const folded = (row.folded = this.isFolded(row.node));
      if (!folded) for (const child of this._children(row.node).toReversed()) waiting.push({ node: child, level: row.level + 1 });
    }
    this._list.style.height = `${this._rows.length * ROW}px`;
    this._ask();
  }

  _ask() {
    if (this._asked) return;
    this._asked = true;
    requestAnimationFrame(() => {
      this._asked = false;
      if (this.record) this._draw();
    });
  }

  _draw() {
    const { scrollTop, clientHeight } = this.host;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - AROUND), last = Math.ceil((scrollTop + clientHeight) / ROW) + AROUND;
    const shown = new Set();
    const spent = this.record.spent(this.moment);
    this._rows.slice(first, last).forEach((row, number) => {
      shown.add(row.node.id);
      this._drawRow(row, (first + number) * ROW, spent.get(row.node.id));
    });
    for (const [id, made] of this._drawn) if (!shown.has(id)) (made.remove(), this._drawn.delete(id));
    const chosen = this._drawn.get(this.selected);
    if (chosen) this.host.setAttribute("aria-activedescendant", chosen.id);
    else this.host.removeAttribute("aria-activedescendant");
    this._seen(this._rows.filter((row, at) => (at + 1) * ROW > scrollTop && at * ROW < scrollTop + clientHeight).map(({ node }) => node.id));
  }

  _drawRow({ node, level, folded }, top, spent) {
    const status = this.record.status(node, this.moment);
    const doing = status === "running" ? latest(node.doing, this.moment)?.skill : "";
    const why = status === "failure" ? this.record.why(node, this.moment) : "";
    const robot = latest(node.robots, this.moment)?.robot ?? "";
    const grown = this._children(node);
    const done = grown.filter((child) => this.record.status(child, this.moment) === "success").length;
    const share = node.policy && ["success", "failure"].includes(status) && done < grown.length ? `${done} of ${grown.length}` : "";
    const key = [status, doing, why, robot, folded, grown.length, share, node.id === this.selected, this._activeIds.has(node.id), spent?.key, this._only?.has(node.id)].join("\t");
    let row = this._drawn.get(node.id);
    if (!row) {
      this._drawn.set(node.id, (row = this._list.appendChild(this._made(node, level))));
      row.style.top = `${top}px`;
    } else if (row.style.top !== `${top}px`) row.style.top = `${top}px`;
    if (row.dataset.key === key) return;
    row.dataset.key = key;
    row.className = ["node", node.isFlow ? "flow" : "goal", status || "idle", this._activeIds.has(node.id) && "active", node.id === this.selected && "selected", this._only && !this._only.has(node.id) && "beside"].filter(Boolean).join(" ");
    row.setAttribute("aria-selected", String(node.id === this.selected));
    row.title = visible(`${node.isFlow ? node.kind : `agent node: ${node.name.slice(0, 200)}`}, ${SPOKEN[status]}`);
    if (grown.length) row.setAttribute("aria-expanded", String(!folded));
    else row.removeAttribute("aria-expanded");
    const [twisty, shape, , spoken, says, costs] = row.querySelectorAll(":scope > :not(.guides)");
    twisty.textContent = grown.length ? (folded ? "▸" : "▾") : "";
    if (!node.isFlow) shape.lastChild.setAttribute("d", MARKS[status] ?? "M0 0");
    spoken.textContent = `, ${SPOKEN[status]}`;
    says.textContent = visible([node.isFlow && status && STATUSES[status][0], share, robot, doing || why].filter(Boolean).join(" "));
    const { branch } = spent;
    costs.replaceChildren(
      branch.refused ? make("span.tag.bad", { title: `${branch.refused} refused` }, `▲ ${count(branch.refused)}`) : "",
      make("span.many", {}, branch.decisions ? [count(branch.decisions), make("span.unit", {}, branch.decisions === 1 ? " decision" : " decisions")] : status ? "" : make("span.unit", {}, SPOKEN[""])),
      make("span.tokens", { title: "tokens" }, branch.tokens ? shortly(branch.tokens) : ""),
      make("span.took", { title: "from its beginning to its end" }, spent.took === null ? "" : seconds(spent.took)),
    );
  }

  _made(node, level) {
    const siblings = this.record.byId.get(node.parent)?.children ?? [node];
    const row = make("div", { id: this._prefix + node.id, role: "treeitem", "data-node": node.id, "aria-level": level, "aria-posinset": siblings.indexOf(node) + 1, "aria-setsize": siblings.length });
    const guides = make("span.guides", { "aria-hidden": true }, level > DEEPEST ? `${level}` : "");
    guides.style.setProperty("--level", Math.min(level - 1, DEEPEST));
    const shape = element("svg", { class: "shape", viewBox: "-11 -11 22 22", "aria-hidden": true });
    if (node.isFlow) {
      const sign = element("text", { class: "sign", y: 4.5 });
      sign.textContent = FLOWS[node.kind]?.[0] ?? "";
      shape.append(element("rect", { class: "body", x: -9, y: -9, width: 18, height: 18, rx: 2 }), sign);
    } else shape.append(element("circle", { class: "body", r: 9.5 }));
    shape.append(element("path", { class: "mark" }));
    row.append(guides, make("span.twisty", { "aria-hidden": true }), shape, make("span.name", { dir: "auto" }, node.isFlow ? make("span.rest", {}, node.kind) : named(node, siblings)), make("span.aside"), make("span.doing", { dir: "auto" }), make("span.costs"));
    return row;
  }

  // ------------------------------------------------------------------ the person

  _click(event) {
    const row = event.target.closest?.("[data-node]");
    if (!row) return;
    const id = Number(row.dataset.node), node = this.record.byId.get(id);
    const onSign = event.target.closest(".twisty, .shape");
    if (this._children(node).length && (onSign || id === this.selected || this.isFolded(node))) this.fold(id);
    if (!onSign) this._select(id);
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this._rows.length) return;
    const at = this._rows.findIndex(({ node }) => node.id === this.selected);
    const node = this._rows[at]?.node;
    const grown = node && this._children(node).length;
    const to = (row) => row && this._select(row.node?.id ?? row.id);
    const going = {
      ArrowDown: () => to(this._rows[at + 1]),
      ArrowUp: () => to(this._rows[at - 1]),
      ArrowRight: () => (grown && this.isFolded(node) ? this.fold(node.id) : grown && to(this._rows[at + 1])),
      ArrowLeft: () => (grown && !this.isFolded(node) ? this.fold(node.id) : to(this.record.byId.get(node?.parent))),
      Home: () => to(this._rows[0]),
      End: () => to(this._active.at(-1) ?? this._rows.at(-1)),
      Enter: () => to(node),
      " ": () => grown && this.fold(node.id),
    }[event.key];
    if (!going) return;
    event.preventDefault();
    event.stopPropagation();
    if (node) going();
    else to(this._rows[0]);
  }
}

TreeView.count = 0;

function element(name, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Return a name in two parts: what all of several siblings begin with, which is cut first, and the rest. */
function named({ name }, siblings) {
  const first = siblings[0].name.split(" "), own = name.split(" ");
  let same = siblings.length > 1 ? own.length - 1 : 0;
  while (same && !siblings.every((one) => one.name.startsWith(`${first.slice(0, same).join(" ")} `))) same--;
  return same > 1 ? [make("span.same", {}, `${own.slice(0, same).join(" ")} `), make("span.rest", {}, own.slice(same).join(" "))] : make("span.rest", {}, name);
}

function shortly(number) {
  return number < 10_000 ? count(number) : number < 1e6 ? `${Math.round(number / 1000)} k` : `${(number / 1e6).toFixed(1)} M`;
}
