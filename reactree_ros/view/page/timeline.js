// The time line: a slider over all events, with the tokens of each reply and marks for notable events.

import { Canvas } from "./canvas.js";
import { countUntil, latest } from "./record.js";
import { count, make, seconds } from "./text.js";
import { MARKS } from "./words.js";

const COLOURS = { expansion: "expansion", hold: "quiet", refusal: "interrupted", failure: "failure", person: "running" };

export class Timeline {
  /** `go(moment)` is called when a person moves the slider, `live()` when they want the newest moment. */
  constructor(host, { go, live }) {
    this._go = go;
    const marks = make("canvas.marks", { "aria-hidden": true });
    this._slider = make("input.slider", { type: "range", min: 0, max: 0, value: 0, disabled: true, "aria-label": "Moment of the run" });
    this._number = make("input.number", { type: "number", min: 0, disabled: true, inputmode: "numeric", "aria-label": "Decision to go to" });
    this._of = make("span.of");
    this._when = make("span.clock");
    this._play = make("button", { type: "button", title: "Play (space)", "aria-label": "Play", onclick: () => this._record && this.play() }, "▶");
    this._live = make("button.live", { type: "button", title: "The newest moment (L)", onclick: live }, "Newest");
    const step = (label, title, ...by) => make("button", { type: "button", title, "aria-label": title, onclick: () => this._record && this[by[0]](...by.slice(1)) }, label);
    this._nexts = [["refusal", "R"], ["failure", "F"]].map(([kind, key]) => [kind, make("button", { type: "button", title: `Next ${kind} (${key})`, onclick: () => this._record && this.mark(kind, 1) })]);
    host.append(
      make("div.line", {}, marks, this._slider),
      make(
        "div.moves",
        {},
        step("‹", "Step back (,)", "step", -1),
        this._play,
        step("›", "Step forward (.)", "step", 1),
        make("label", {}, "decision ", this._number),
        this._of,
        this._when,
        make("span.gap"),
        this._nexts.map(([, button]) => button),
        this._live,
      ),
      (this._legend = make("p.key", { role: "note", "aria-label": "Marks of the time line" })),
    );
    this._slider.addEventListener("input", () => this._moved(Number(this._slider.value)));
    this._slider.addEventListener("keydown", (event) => this._key(event));
    this._number.addEventListener("change", () => this._moved(this._record.momentOfDecision(Number(this._number.value) || 0)));
    this._painted = new Canvas(marks, (on, looks) => this._record && this._paint(on, looks));
  }

  show(record, moment, isLive) {
    const grown = record !== this._record || record.length !== this._length || isLive;
    [this._record, this._moment, this._length] = [record, moment, record.length];
    this._slider.disabled = this._number.disabled = false;
    const last = Math.max(0, record.last);
    if (this._slider.max !== String(last)) this._slider.max = last;
    if (this._slider.value !== String(moment)) this._slider.value = moment;
    const number = latest(record.decisions, moment)?.number ?? 0;
    const most = record.decisions.at(-1)?.number ?? 0;
    if (document.activeElement !== this._number) this._number.value = number;
    this._number.max = most;
    const when = seconds(record.times[moment] ?? 0);
    this._of.textContent = `of ${count(most)}`;
    this._when.textContent = when;
    this._slider.setAttribute("aria-valuetext", `decision ${number} of ${most}, ${when}`);
    this._live.setAttribute("aria-pressed", String(isLive));
    this._showMarks(record, moment);
    if (grown) this._painted.ask();
  }

  /** Show the kinds of marks, their counts, and whether there is a next one. */
  _showMarks(record, moment) {
    for (const [kind, button] of this._nexts) {
      const [, , several] = MARKS[kind];
      const isNext = record.mark(kind, moment, 1) !== null;
      button.disabled = !isNext;
      button.textContent = isNext ? `${kind} ›` : record.marks.some((mark) => mark.kind === kind) ? `no later ${kind}` : `no ${several}`;
    }
    const key = `${record.marks.length} ${record.tokens.length}`;
    if (key === this._marksKey) return;
    this._marksKey = key;
    const found = Object.entries(MARKS).map(([kind, [sign, one, several]]) => {
      const many = record.marks.filter((mark) => mark.kind === kind).length;
      return many ? make("span", {}, make(`b.${COLOURS[kind]}`, {}, sign), ` ${count(many)} ${many === 1 ? one : several}`) : "";
    });
    this._legend.replaceChildren(make("span", {}, make("b.bar", {}, "▮"), " tokens of a request"), ...found.filter(Boolean));
  }

  step(by) {
    const { _record: record, _moment: moment } = this;
    const here = countUntil(record.decisions, moment);
    const isSettled = record.momentAfter(here) <= moment;
    this._moved(record.momentAfter(by > 0 ? (isSettled ? here + 1 : here) : here - 1));
  }

  mark(kind, direction) {
    const found = this._record.mark(kind, this._moment, direction);
    if (found !== null) this._moved(found);
    return found !== null;
  }

  /** Play the run from here, one decision at a time; stop if it is playing. */
  play() {
    if (this._playing) return this.stop();
    if (this._moment >= this._record.last) this._go(0);
    this._show("❚❚", "Stop playing");
    this._playing = setInterval(() => {
      if (this._moment >= this._record.last) this.stop();
      else this._go(this._next());
    }, 600);
  }

  stop() {
    clearInterval(this._playing);
    this._playing = null;
    this._show("▶", "Play");
  }

  _show(sign, label) {
    this._play.textContent = sign;
    this._play.setAttribute("aria-label", label);
  }

  _next() {
    return this._record.momentAfter(countUntil(this._record.decisions, this._moment) + 1);
  }

  _moved(moment) {
    this.stop();
    this._moment = moment; // the next key may come before the next frame
    this._go(moment);
  }

  _key(event) {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    if (event.shiftKey) this._moved(Math.max(0, Math.min(this._record.last, this._moment + by)));
    else this.step(by);
  }

  _paint(on, { width, height, colour }) {
    const last = Math.max(1, this._record.last);
    const x = (n) => 8 + ((width - 16) * n) / last;
    let before = 0, highest = 0;
    const spent = this._record.tokens.map((sum) => {
      const tokens = sum.prompt + sum.output - before;
      before = sum.prompt + sum.output;
      highest = Math.max(highest, tokens);
      return [sum.n, tokens];
    });
    on.fillStyle = colour("tokens");
    const bar = Math.max(1, Math.min(5, (width - 16) / Math.max(1, spent.length) - 1));
    on.beginPath();
    for (const [n, tokens] of spread(spent, ([n]) => x(n))) {
      const tall = highest ? (tokens / highest) * (height - 12) : 4; // tokens unknown: one tick per reply
      on.rect(x(n) - bar / 2, height - tall, bar, tall);
    }
    on.fill();
    for (const [kind, name] of Object.entries(COLOURS)) {
      on.fillStyle = colour(name);
      on.beginPath();
      const marks = this._record.marks.filter((mark) => mark.kind === kind);
      for (const mark of spread(marks, (one) => x(one.n))) draw(on, kind, x(mark.n), 5);
      on.fill();
    }
  }
}

/** Marks differ in shape as well as in colour. */
function draw(on, kind, x, y) {
  if (kind === "expansion") on.rect(x - 2, y - 2, 4, 4);
  else if (kind === "refusal") (on.moveTo(x - 4, y + 3), on.lineTo(x, y - 4), on.lineTo(x + 4, y + 3));
  else if (kind === "hold") (on.rect(x - 3, y - 4, 2, 8), on.rect(x + 1, y - 4, 2, 8));
  else if (kind === "person") (on.moveTo(x + 3.5, y), on.arc(x, y, 3.5, 0, 2 * Math.PI));
  else (on.moveTo(x - 4, y), on.lineTo(x, y - 4), on.lineTo(x + 4, y), on.lineTo(x, y + 4));
}

/** Return the items without those that would overlap the one before. */
function spread(items, at) {
  let before = -Infinity;
  return items.filter((item) => at(item) - before >= 1 && ((before = at(item)), true));
}

