// Search by words over goals, decisions and observations, and filters of decisions. What is found leads to its node.

import { inVain, shownAs } from "./record.js";
import { count, make } from "./text.js";
import { KINDS } from "./words.js";

const FEW = 0.05; // the share of the decisions that counts as slow, or as rich in tokens
const FILTERS = { refused: "Refused, or asked again", slow: "Among the slowest twentieth, and twice as slow as most", rich: "Among the twentieth with the most tokens, and twice as many as most" };
const NAMES = { refused: "Refused", slow: "Slow", rich: "Token-rich" };

export class Search {
  /** `changed()` is called when a person asks for something else, `go(hit)` for the next or previous thing found. */
  constructor(host, { changed, go }) {
    this._words = make("input", { type: "search", placeholder: "Search goals, decisions, observations", "aria-label": "Search the run", autocomplete: "off", oninput: changed, onkeydown: (event) => event.key === "Enter" && this._next(event.shiftKey ? -1 : 1) });
    const options = Object.entries(KINDS).map(([kind, { label }]) => make("option", { value: kind }, label));
    this._kind = make("select", { "aria-label": "Kind of decision", onchange: changed }, make("option", { value: "" }, "any kind"), options);
    this._filters = Object.entries(FILTERS).map(([name, title]) => {
      const button = make("button.toggle", { type: "button", title, "aria-pressed": "false", onclick: () => (button.setAttribute("aria-pressed", String(!this._wants(name))), changed()) }, NAMES[name]);
      button.dataset.name = name;
      return button;
    });
    this._found = make("span.found", { role: "status" });
    this._steps = make("span.steps", { hidden: true }, [["‹", "Previous found", -1], ["›", "Next found (Enter)", 1]].map(([sign, title, by]) => make("button", { type: "button", title, "aria-label": title, onclick: () => this._next(by) }, sign)));
    this._go = go;
    host.append(make("div.search", { role: "search" }, this._words, this._kind, this._filters, this._found, this._steps));
  }

  focus() {
    this._words.focus();
  }

  /** Return what was found until a moment: ids of nodes, and entries of their conversations; null if nothing is asked. */
  find(record, moment) {
    [this._record, this._moment] = [record, moment];
    const words = this._words.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const kind = this._kind.value, wanted = Object.keys(FILTERS).filter((name) => this._wants(name));
    const asked = words.length || kind || wanted.length;
    const key = JSON.stringify([words, kind, wanted, record.length, moment]);
    if (key === this._key) return this._result;
    this._key = key;
    this._hits = [];
    const ids = new Set();
    if (asked) {
      const said = record.nodes.flatMap((node) => node.entries).filter((entry) => entry.kind === "said");
      const limits = { slow: most(said, secondsOf), rich: most(said, tokensOf) };
      const has = (text) => words.every((word) => text.toLowerCase().includes(word));
      const fits = (entry) =>
        (!kind || (entry.kind === "said" && shownAs(entry.decision).kind === kind)) &&
        (!wanted.includes("refused") || entry.verdict?.refused || inVain(entry.reply).length) &&
        (!wanted.includes("slow") || secondsOf(entry) >= limits.slow) &&
        (!wanted.includes("rich") || tokensOf(entry) >= limits.rich);
      for (const node of record.nodes) {
        if (node.born > moment) break;
        if (words.length && !kind && !wanted.length && !node.isFlow && has(node.name)) ids.add(node.id);
        for (const entry of node.entries) {
          if (entry.n > moment) break;
          if (entry.kind !== "start" && has(entry.text) && fits(entry)) (ids.add(node.id), this._hits.push({ node: node.id, entry }));
        }
      }
      this._hits.sort((a, b) => a.entry.n - b.entry.n);
    }
    this._result = asked ? { ids, entries: new Set(this._hits.map(({ entry }) => entry)) } : null;
    this._found.textContent = asked ? `${count(ids.size)} ${ids.size === 1 ? "node" : "nodes"}, ${count(this._hits.length)} ${this._hits.length === 1 ? "turn" : "turns"}` : "";
    this._steps.hidden = !this._hits.length;
    return this._result;
  }

  _wants(name) {
    return this._filters.find((button) => button.dataset.name === name).getAttribute("aria-pressed") === "true";
  }

  _next(by) {
    if (this._record) this.find(this._record, this._moment); // what was typed last may not have been looked for yet
    if (!this._hits?.length) return;
    const at = this._hits.findIndex(({ entry }) => entry === this._at);
    const hit = this._hits[at < 0 ? (by > 0 ? 0 : this._hits.length - 1) : (at + by + this._hits.length) % this._hits.length];
    this._at = hit.entry;
    this._go(hit);
  }
}

function secondsOf({ reply }) {
  return reply?.seconds ?? 0;
}

function tokensOf({ reply }) {
  return (reply?.prompt_tokens ?? 0) + (reply?.output_tokens ?? 0);
}

/** Return from which value on an entry is among the few with the most. */
function most(entries, of) {
  const sorted = entries.map(of).sort((a, b) => b - a);
  const middle = sorted[sorted.length >> 1] ?? 0;
  return Math.max(sorted[Math.floor(FEW * sorted.length)] ?? 0, 2 * middle, Number.MIN_VALUE);
}
