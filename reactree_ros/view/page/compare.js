// Two runs side by side: their trees at the same decision, and rows of decisions from the first that differs.

import { Record } from "./record.js";
import { follow } from "./stream.js";
import { make, visible, words } from "./text.js";
import { TreeView } from "./tree.js";

const BATCH = 200; // rows drawn around the chosen one

export class CompareView {
  constructor(page, first, second) {
    this._closed = new AbortController();
    this._at = 0;
    this._sides = [first, second].map((run) => this._side(run));
    this._part = make("p.quiet", { role: "status" });
    this._slider = make("input.slider", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Decision of both runs", oninput: () => this._go(Number(this._slider.value)) });
    this._number = make("output");
    this._rows = make("tbody");
    const title = (side) => make("th", { scope: "col", dir: "auto" }, side.run);
    page.append(
      make("header.top", {}, make("a.back", { href: "#/" }, "‹ Runs"), make("h1", {}, "Side by side"), this._part, make("span.gap"), make("button", { type: "button", onclick: () => this._go(this._parted + 1) }, "First difference (F)")),
      make("div.two", {}, this._sides.map((side) => side.host)),
      make("footer.time.plain", {}, make("div.line", {}, this._slider), make("div.moves", {}, "decision", this._number)),
      make("div.table.decisions", { tabindex: 0, role: "region", "aria-label": "Decisions" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "#"), this._sides.map(title))), this._rows)),
    );
  }

  async begin() {
    await Promise.all(
      this._sides.map((side) =>
        follow(side.run, {
          take: (events) => this._take(side, events),
          steering: () => {},
          state: () => {},
          signal: this._closed.signal,
        }),
      ),
    );
  }

  close() {
    this._closed.abort();
  }

  key(event) {
    const keys = { ".": () => this._go(this._at + 1), ",": () => this._go(this._at - 1), f: () => this._go(this._parted + 1) };
    if (!keys[event.key]) return false;
    keys[event.key]();
    return true;
  }

  _side(run) {
    const host = make("section.tree-host", { "aria-label": run });
    const name = host.appendChild(make("h2.corner", { dir: "auto" }, run));
    const side = { run, host, name, record: new Record() };
    side.tree = new TreeView(host, { label: `Behaviour tree of ${run}`, select: (id) => side.tree.select(id, { byHand: true }) });
    return side;
  }

  _take(side, events) {
    for (const event of events) side.record.add(event);
    const { header } = side.record;
    side.name.textContent = visible(`${header.planner?.name ?? ""} · ${header.llm?.llm ?? ""} · ${header.instruction}`);
    if (this._asked) return;
    this._asked = true;
    requestAnimationFrame(() => {
      this._asked = false;
      this._parted = parted(...this._sides.map((one) => one.record));
      this._most = Math.max(...this._sides.map((one) => one.record.decisions.length));
      this._slider.max = this._most;
      const same = this._most ? "they decide the same" : "neither has decided anything";
      this._part.textContent = this._parted < this._most ? `they differ from decision ${this._parted + 1}` : same;
      if (!this._moved) this._at = Math.min(this._parted + 1, this._most);
      this._show();
    });
  }

  _go(number) {
    this._moved = true;
    this._at = Math.max(0, Math.min(number, this._most ?? 0));
    this._show();
  }

  _show() {
    this._slider.value = this._at;
    this._number.textContent = ` ${this._at} of ${this._most}`;
    for (const { record, tree } of this._sides) if (record.length) tree.show(record, record.momentAfter(this._at));
    const first = Math.max(0, this._at - BATCH / 2);
    const rows = [];
    for (let number = first; number < Math.min(this._most, first + BATCH); number++) rows.push(this._row(number));
    this._rows.replaceChildren(...rows);
    this._rows.querySelector(".here")?.scrollIntoView({ block: "nearest" });
  }

  _row(number) {
    const cell = ({ record }) => {
      const decision = record.decisions[number];
      if (!decision) return make("td.nothing", {}, "–");
      const node = record.byId.get(decision.node);
      return make("td", {}, words("div.text", decision.words.slice(0, 400)), make("span.note", { dir: "auto" }, node?.name.slice(0, 80) ?? "", decision.refused ? " · refused" : ""));
    };
    const classes = [number + 1 === this._at && "here", number >= this._parted && "parted"].filter(Boolean);
    const go = make("button", { type: "button", onclick: () => this._go(number + 1) }, String(number + 1));
    return make(["tr", ...classes].join("."), {}, make("td", {}, go), this._sides.map(cell));
  }
}

/** Return how many first decisions two runs have in common. */
export function parted(one, other) {
  const most = Math.min(one.decisions.length, other.decisions.length);
  const said = (record, number) => {
    const { node, words: text, refused } = record.decisions[number];
    return JSON.stringify([record.byId.get(node)?.name, text, Boolean(refused)]);
  };
  let number = 0;
  while (number < most && said(one, number) === said(other, number)) number++;
  return number;
}
