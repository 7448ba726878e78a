// The table of runs: filter, sort, open one run, or compare two.

import { fetchRuns } from "./stream.js";
import { count, make, seconds } from "./text.js";
import { SCORES } from "./words.js";

const REFRESH = 3000; // milliseconds
const COLUMNS = [
  { name: "instruction", title: "Instruction" },
  { name: "outcome", title: "Outcome" },
  { name: "planner", title: "Planner" },
  { name: "llm", title: "Model" },
  { name: "gsr", title: "GSR", number: true, about: SCORES },
  { name: "decisions", title: "Decisions", number: true },
  { name: "nodes", title: "Agent nodes", number: true },
  { name: "seconds", title: "Time", number: true, write: seconds },
  { name: "started", title: "Began", write: (text) => String(text).slice(0, 16).replace("T", " ") },
];

export class TableView {
  constructor(page) {
    this._chosen = new Set();
    this._sorted = { name: "started", down: true };
    this._search = make("input", { type: "search", placeholder: "Search instructions and causes", "aria-label": "Search", oninput: () => this._draw() });
    this._filters = ["planner", "outcome", "cause"].map((name) => [name, make("select", { "aria-label": name, onchange: () => this._draw() })]);
    this._compare = make("button.primary", { type: "button", onclick: () => this._open() });
    this._label();
    this._count = make("p.quiet", { role: "status" });
    this._body = make("tbody");
    this._titles = make("tr");
    page.append(
      make("header.top", {}, make("h1", {}, "Runs"), this._count),
      make("div.filters", {}, this._search, this._filters.map(([, select]) => select), this._compare),
      make("p.quiet.about", {}, SCORES),
      make("div.table", { tabindex: 0, role: "region", "aria-label": "Runs" }, make("table", {}, make("thead", {}, this._titles), this._body)),
    );
    this._drawTitles();
  }

  async begin() {
    const found = await fetchRuns();
    if (found.alone && found.runs.length) {
      history.replaceState(null, "", `#/run/${encodeURIComponent(found.runs[0].run)}`);
      dispatchEvent(new HashChangeEvent("hashchange"));
      return;
    }
    this._take(found.runs);
    this._timer = setInterval(async () => {
      if (document.hidden) return;
      const again = await fetchRuns().catch(() => null); // the server is gone: nothing new
      if (again) this._take(again.runs);
    }, REFRESH);
  }

  close() {
    clearInterval(this._timer);
  }

  _take(runs) {
    const said = JSON.stringify(runs);
    if (said === this._said) return;
    this._said = said;
    this._runs = runs.map((run) => ({ ...run, outcome: run.verdict.words }));
    for (const [name, select] of this._filters) {
      const was = select.value;
      const values = [...new Set(this._runs.map((run) => run[name]).filter(Boolean))].sort();
      const option = (value) => make("option", { value, selected: value === was }, value.slice(0, 60));
      select.replaceChildren(make("option", { value: "" }, `any ${name}`), ...values.map(option));
      select.hidden = values.length < 2;
    }
    this._draw();
  }

  _shown() {
    const wanted = this._search.value.toLowerCase();
    const { name, down } = this._sorted;
    const found = this._runs.filter(
      (run) =>
        this._filters.every(([of, select]) => !select.value || run[of] === select.value) &&
        `${run.instruction} ${run.cause} ${run.run}`.toLowerCase().includes(wanted),
    );
    return found.sort((a, b) => compared(a[name], b[name]) * (down ? -1 : 1));
  }

  _draw() {
    const shown = this._shown();
    this._count.textContent = shown.length === this._runs.length ? `${count(shown.length)}` : `${count(shown.length)} of ${count(this._runs.length)}`;
    this._body.replaceChildren(...shown.map((run) => this._row(run)));
    if (!shown.length) {
      const why = this._runs.length ? "No run matches." : "No records yet; `reactree run --save` writes one.";
      this._body.append(make("tr", {}, make("td.empty", { colspan: COLUMNS.length + 1 }, why)));
    }
  }

  _row(run) {
    const choose = make("input", {
      type: "checkbox",
      checked: this._chosen.has(run.run),
      disabled: Boolean(run.problem),
      "aria-label": `Lay ${run.instruction || run.run} side by side`,
      onchange: (event) => this._choose(run.run, event.target.checked),
    });
    const cells = COLUMNS.map(({ name, title, number, write }) => {
      const value = run[name];
      if (name === "instruction") return make("td.instruction", { dir: "auto", title: run.run }, run.problem ? run.run : make("a", { href: `#/run/${encodeURIComponent(run.run)}` }, value || run.run));
      if (name === "outcome") return make("td", { "data-title": title }, make(`span.chip.${run.verdict.status}`, {}, value), run.cause ? make("p.cause", { dir: "auto" }, run.cause.length > 200 ? `${run.cause.slice(0, 200)}…` : run.cause) : "");
      if (name === "planner" && value) {
        const [short, ...options] = value.split(":");
        return make("td", { dir: "auto", "data-title": title }, short, options.length ? make("p.cause", {}, options.join(", ")) : "");
      }
      const missing = value === null || value === undefined;
      return make(number ? "td.number" : "td", { dir: "auto", "data-title": title }, missing ? "–" : (write ?? (number ? count : String))(value));
    });
    return make("tr", {}, make("td.choose", {}, choose), cells);
  }

  _choose(run, chosen) {
    if (chosen) this._chosen.add(run);
    else this._chosen.delete(run);
    if (this._chosen.size > 2) this._chosen.delete([...this._chosen][0]);
    this._label();
    this._draw();
  }

  _label() {
    this._compare.disabled = this._chosen.size !== 2;
    this._compare.textContent = this._compare.disabled ? "Side by side: tick two runs" : "Side by side";
  }

  _open() {
    location.hash = `#/compare/${[...this._chosen].map(encodeURIComponent).join("/")}`;
  }

  _drawTitles() {
    const title = ({ name, title, number, about }) => {
      const isSorted = this._sorted.name === name;
      const sort = isSorted ? (this._sorted.down ? "descending" : "ascending") : "none";
      const sign = isSorted ? (this._sorted.down ? " ↓" : " ↑") : "";
      return make(number ? "th.number" : "th", { "aria-sort": sort, scope: "col" }, make("button", { type: "button", title: about, onclick: () => this._sort(name) }, title + sign));
    };
    this._titles.replaceChildren(make("th", { scope: "col" }, make("span.aside", {}, "Choose")), ...COLUMNS.map(title));
  }

  _sort(name) {
    this._sorted = { name, down: this._sorted.name === name ? !this._sorted.down : false };
    this._drawTitles();
    this._draw();
  }
}

function compared(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}
