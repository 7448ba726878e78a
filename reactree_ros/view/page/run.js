// One run: its tree, the chosen node, the world, the counts, the time line, and the person's commands.

import { Overview } from "./overview.js";
import { endWords, NodePanel, RunPanel, scores, WorldPanel } from "./panels.js";
import { countUntil, latest, MOST_SAID, Record } from "./record.js";
import { Search } from "./search.js";
import { fetchRuns, follow, Refused, steer } from "./stream.js";
import { make, seconds, visible } from "./text.js";
import { Timeline } from "./timeline.js";
import { SPOKEN, TreeView } from "./tree.js";
import { COUNTS, FLOWS, SCORES, STATUSES } from "./words.js";

const MANY = 200; // events at once: a finished record, not a live run
const CATCHING_UP = 150; // milliseconds
const PANES = ["tree", "node", "world", "run"]; // on a narrow screen one at a time, else the tree beside another
const NARROW = matchMedia("(max-width: 700px)");

export class RunView {
  /** `moment` and `node`: what is looked at first, as a shared address names it. */
  constructor(page, run, moment, node) {
    this._run = run;
    this._wanted = { moment: moment === undefined || moment === "" ? null : Number(moment), node: node === undefined ? null : Number(node) };
    this._closed = new AbortController();
    this._record = new Record();
    this._moment = -1;
    this._live = true;
    this._chosen = null;
    this._byHand = false;
    this._build(page);
  }

  async begin() {
    fetchRuns().then(({ alone, runs }) => {
      this._back.hidden = alone;
      document.title = `${visible(runs.find((one) => one.run === this._run)?.instruction ?? this._run)} · reactree`;
    }, () => {});
    await follow(this._run, {
      take: (events) => this._take(events),
      steering: (course) => this._steering(course),
      state: (words) => this._connection(words),
      signal: this._closed.signal,
    });
  }

  /** Whether it shows the newest moment. */
  get isLive() {
    return this._live;
  }

  close() {
    this._closed.abort();
    this._timeline.stop();
  }

  // ------------------------------------------------------------------ elements

  _build(page) {
    this._title = make("h1.instruction", { dir: "auto" }, "…");
    this._state = make("span.chip.idle", { role: "status" }, "loading");
    this._lost = make("span.lost", { role: "alert", hidden: true }, "connection lost; reconnecting");
    this._budgets = make("div.budgets");
    this._back = make("a.back", { href: "#/", hidden: true }, "‹ Runs");
    this._controls = this._steers();
    const panels = PANES.slice(1).map((name) => make("div.panel", { id: `panel-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, tabindex: 0 }));
    const treeHost = make("section.tree-host", { id: "panel-tree", "aria-label": "Behaviour tree" });
    this._paneHosts = [treeHost, ...panels];
    this._tabs = PANES.map((name, number) =>
      make(`button.to-${name}`, { id: `tab-${name}`, type: "button", role: "tab", "aria-controls": `panel-${name}`, onclick: () => this._open(number), onkeydown: (event) => this._tabKey(event) }, name[0].toUpperCase() + name.slice(1)),
    );
    const timeHost = make("footer.time", { "aria-label": "Time line" });
    page.append(
      make("header.top", {}, this._back, this._title, this._lost, make("span.gap"), this._budgets, this._exports(), make("button", { type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: () => document.getElementById("keys").showModal() }, "?")),
      this._outcome = make("section.outcome.idle", { "aria-label": "How the run stands" }, this._state),
      this._controls,
      (this._body = make("div.run", {}, treeHost, make("div.tabs", { role: "tablist", "aria-label": "Panes" }, this._tabs), panels)),
      timeHost,
    );
    this._search = new Search(treeHost, { changed: () => this._ask(), go: ({ node, entry }) => this._goTo(node, entry) });
    this._tree = new TreeView(treeHost, { select: (id) => this.select(id), seen: (ids) => this._overview.mark(ids) });
    this._overview = new Overview(treeHost, { select: (id) => this.select(id) });
    treeHost.append(this._foot());
    this._node = new NodePanel(panels[0], { jump: (moment) => this._go(moment) });
    this._world = new WorldPanel(panels[1]);
    this._counts = new RunPanel(panels[2]);
    this._timeline = new Timeline(timeHost, { go: (moment) => this._go(moment), live: () => this._goLive() });
    this._open(NARROW.matches ? 0 : 1);
    NARROW.addEventListener("change", () => this._open(NARROW.matches ? this._tab : this._tab || 1));
  }

  _foot() {
    const button = (name, title, folded) => make("button", { type: "button", title, onclick: () => this._tree.foldAll(folded) }, name);
    return make("div.foot", {}, legend(), button("Fold what is done", "Only what is done (0)", null), button("Open all", "Open every branch (+)", false), button("Fold all", "Fold every branch (−)", true));
  }

  _exports() {
    const link = (kind, name) => make("a", { role: "menuitem", href: "#", onclick: (event) => ((event.preventDefault(), this._export(kind))) }, name);
    this._saving = make("p.saving", { role: "status" });
    return make("details.exports", {}, make("summary", { title: "Save this moment as a file" }, "Save"), make("div.sheet", {}, make("div", { role: "menu" }, make("a", { role: "menuitem", href: "#", onclick: (event) => (event.preventDefault(), this._copyLink()) }, "Link to this moment"), link("svg", "Tree, SVG"), link("growing", "Growing tree, SVG"), link("gif", "Growing tree, GIF"), link("mp4", "Growing tree, MP4"), link("png", "Tree, PNG"), link("dot", "Tree, dot"), link("markdown", "Run, Markdown"), link("mcap", "Run, MCAP"), link("btlog", "Run, Groot2")), this._saving));
  }

  async _export(kind) {
    this._saving.textContent = "Drawing …";
    const answer = await fetch(`/api/export?run=${encodeURIComponent(this._run)}&as=${kind}&at=${this._moment}`);
    this._saving.textContent = answer.ok ? "" : visible((await answer.json()).error);
    if (!answer.ok) return;
    const address = URL.createObjectURL(await answer.blob());
    make("a", { href: address, download: `${this._run.replace(/\W+/g, "_")}.${{ markdown: "md", growing: "svg" }[kind] ?? kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  async _copyLink() {
    this._share(true);
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    this._announce(copied ? "The link is copied" : "The link is in the address line");
  }

  /** Keep the address that of what is looked at, if this run has one of its own. */
  _share(always = false) {
    if (!always && !location.hash.startsWith("#/run/")) return;
    const at = this._live && !always ? "" : this._moment, node = this._byHand ? this._chosen : "";
    const address = ["#/run", encodeURIComponent(this._run), at, node].join("/").replace(/\/+$/, "");
    if (address !== location.hash) history.replaceState(null, "", address);
  }

  _steers() {
    const button = (name, title, act, kind = "button") => make(kind, { type: "button", title, onclick: act }, name);
    this._pause = button("Pause", "Pause or continue (P)", () => this._command(this._course?.paused ? "go on" : "pause"));
    this._step = button("Step", "One decision, or one skill of a routine (S)", () => this._command("step"));
    this._cancel = button("Cancel", "Stop the run for good (C)", () => this._askCancel());
    this._words = make("input.decision", { type: "text", "aria-label": "The next decision, in place of the model's", maxlength: 4000, autocomplete: "off", list: "may-say", onfocus: () => this._suggest() });
    this._maySay = make("datalist", { id: "may-say" });
    this._sayIt = make("button.primary", { type: "submit" }, "Say");
    this._notice = make("p.notice", { role: "alert" });
    this._form = make("form.say", { onsubmit: (event) => (event.preventDefault(), this._sayDecision()) }, this._words, this._maySay, this._sayIt);
    this._step.disabled = this._words.disabled = this._sayIt.disabled = true; // until the run is known to be paused
    this._told = make("input.told", { type: "text", placeholder: "Tell the run something; stop ends it", "aria-label": "Tell the run something", maxlength: 1000, autocomplete: "off" });
    this._tellIt = make("form.say.tell", { onsubmit: (event) => (event.preventDefault(), this._tell()) }, this._told, make("button", { type: "submit" }, "Tell"));
    this._question = make("div.question", { role: "alert", hidden: true });
    return make("div.steering", { hidden: true, role: "toolbar", "aria-label": "Steer the run" }, this._pause, this._step, this._form, this._tellIt, this._cancel, this._notice, this._question);
  }

  _suggest() {
    this._maySay.replaceChildren(...this._record.maySay().slice(0, MOST_SAID).map((value) => make("option", { value })));
  }

  /** Show the question to the person; null for none. */
  _put(asked) {
    const number = asked?.number ?? null;
    if (number === this._asking) return;
    this._asking = number;
    clearInterval(this._counting);
    this._question.hidden = !asked;
    this._question.replaceChildren();
    if (!asked) return;
    this._answering = false;
    const left = make("span.left");
    const count = () => {
      const whole = Math.max(0, Math.ceil(asked.ends - Date.now() / 1000));
      left.textContent = whole < 60 ? `${whole} s` : seconds(whole);
    };
    count();
    this._counting = setInterval(count, 1000);
    this._closed.signal.addEventListener("abort", () => clearInterval(this._counting));
    const answer = (words) => this._command(`answer ${number}`, words);
    const who = asked.asker ? make("span.quiet", { dir: "auto" }, ` (${asked.asker})`) : "";
    if (asked.skill) {
      const why = make("input", { type: "text", placeholder: "Why not? The language model reads this", "aria-label": "Why not", maxlength: 1000, autocomplete: "off" });
      this._question.append(
        make("p", { dir: "auto" }, make("b", {}, asked.text), ` ${asked.reason}. Without an answer in `, left, " it is refused.", who),
        make("button.primary", { type: "button", onclick: () => answer("yes") }, "Allow"),
        why,
        make("button.danger", { type: "button", onclick: () => answer(why.value.trim() ? `no, ${why.value}` : "no") }, "Refuse"), // never a yes, whatever the text
      );
      return;
    }
    const said = make("input", { type: "text", placeholder: "Your answer", "aria-label": "Your answer", maxlength: 1000, autocomplete: "off" });
    this._question.append(
      make("p", { dir: "auto" }, make("b", {}, asked.text), ` For “${asked.reason}”. Without an answer in `, left, " the run goes on.", who),
      make("form.say", { onsubmit: (event) => (event.preventDefault(), (this._answering = true), answer(said.value)) }, said, make("button.primary", { type: "submit" }, "Answer")),
    );
    if (document.activeElement === document.body) said.focus(); // what is typed next is an answer, not keys of the page
  }

  // ------------------------------------------------------------------ events

  _take(events) {
    this._answering = false; // the run goes on: keys are the page's again, such as those that pause and cancel
    for (const event of events) this._record.add(event);
    if (!this._shownHeader && this._record.header) {
      this._shownHeader = true;
      this._title.textContent = visible(this._record.header.instruction);
      this._title.title = visible(this._record.header.instruction);
    }
    const { moment } = this._wanted;
    if (moment !== null && moment <= this._record.last) {
      this._wanted.moment = null;
      this._go(moment);
    }
    if (this._live) this._moment = this._record.last;
    this._ask(events.length > MANY);
  }

  _connection(words) {
    this._lost.hidden = words !== "lost";
    this._over = words === "ended";
    if (this._over) this._controls.hidden = true;
    this._ask();
  }

  _steering(course) {
    this._course = course;
    this._controls.hidden = course.ended;
    this._step.hidden = !course.commands.includes("step");
    this._form.hidden = Boolean(course.asked) || !course.commands.includes("say");
    this._pause.textContent = course.paused ? "Continue" : "Pause";
    this._step.disabled = this._words.disabled = this._sayIt.disabled = !course.paused;
    this._notice.textContent = visible(course.notice);
    this._tellIt.hidden = Boolean(course.asked) || !course.commands.includes("tell");
    this._put(course.asked);
    this._ask();
  }

  // ------------------------------------------------------------------ display

  select(id) {
    this._chosen = id;
    this._byHand = true;
    this._tree.select(id, { byHand: true });
    const node = this._record.byId.get(id);
    this._announce(`${node.isFlow ? node.kind : node.name}, ${SPOKEN[this._record.status(node, this._moment)]}`);
    this._open(1);
    this._ask();
  }

  /** Go to a turn of a node's conversation. */
  _goTo(node, entry) {
    if (entry.n > this._moment) this._go(entry.n);
    this.select(node);
    this._sought = entry;
  }

  _go(moment) {
    this._live = moment >= this._record.last;
    this._moment = Math.max(0, Math.min(moment, this._record.last));
    this._ask();
  }

  _goLive() {
    if (this._record.length) this._go(this._record.last);
  }

  /** Redraw in the next frame, or a little later if many events are still to come. */
  _ask(later = false) {
    if (this._asked) return;
    this._asked = true;
    const show = () => {
      this._asked = false;
      if (!this._closed.signal.aborted && this._record.length) this._show();
    };
    if (later) setTimeout(() => requestAnimationFrame(show), CATCHING_UP);
    else requestAnimationFrame(show);
  }

  _show() {
    const { _record: record, _moment: moment } = this;
    const found = this._search.find(record, moment);
    const wanted = record.byId.get(this._wanted.node);
    if (wanted) [this._chosen, this._byHand, this._wanted.node] = [wanted.id, true, null];
    const chosen = record.byId.get(this._chosen);
    if (!this._byHand || !chosen || chosen.born > moment) {
      this._byHand = false;
      const active = record.activePath(moment).findLast((node) => !node.isFlow);
      this._chosen = (active ?? this._decider(moment))?.id ?? null;
    }
    this._tree.selected = this._chosen;
    this._tree.show(record, moment, found?.ids);
    this._overview.show(record, moment, this._chosen);
    if (!this._byHand) this._tree.reveal(this._chosen);
    const sought = this._sought;
    this._sought = null;
    [() => {}, () => this._node.show(record, this._chosen, moment, { follow: this._live && !this._over, found: found?.entries, sought }), () => this._world.show(record, moment), () => this._counts.show(record, moment)][this._tab]();
    this._timeline.show(record, moment, this._live);
    const said = record.maySay().at(-1) ?? "";
    this._words.placeholder = `Say the next decision${said && !said.endsWith(": failure") ? `, e.g. ${visible(said)}` : ""}`;
    this._showState(moment);
    this._showBudgets(moment);
    this._share();
  }

  _decider(moment) {
    const decision = latest(this._record.decisions, moment);
    return this._record.byId.get(decision?.node) ?? this._record.nodes[0];
  }

  /** Show in one line how the run stands; once it has ended, the line opens and says why. */
  _showState(moment) {
    const { end, holds, odd } = this._record;
    const held = latest(holds, moment)?.reason;
    const verdict = this._record.verdict(moment);
    let [words, kind] = ["running", "running"];
    if (verdict) [words, kind] = [verdict.words, verdict.status];
    else if (!this._live) [words, kind] = ["earlier moment", "idle"];
    else if (held) [words, kind] = ["paused", "interrupted"];
    const key = JSON.stringify([words, kind, held, odd.length]);
    if (key === this._stateKey) return;
    this._stateKey = key;
    this._state.textContent = words;
    this._state.className = `chip ${kind}${verdict ? " ended" : ""}`;
    this._outcome.className = `outcome ${kind}`;
    const problem = odd.length ? make("p.odd", { role: "alert" }, `${odd.length} events of this record make no sense and are left out; the first is event ${odd[0]}.`) : "";
    if (!verdict) return this._outcome.replaceChildren(this._state, held ? make("span.why", { dir: "auto" }, held) : "", problem);
    const { result } = end;
    const score = scores(result);
    const unmet = this._record.unmet(moment).join(", ");
    const short = [result.end === "done" ? "" : endWords(result.end), score, unmet && `does not hold: ${unmet}`].filter(Boolean).join("; ");
    const items = this._record.because(verdict).map(({ words: one, node }) => make("li", { dir: "auto" }, node === undefined ? one : make("button.link", { type: "button", onclick: () => this.select(node) }, one)));
    const more = [verdict.cost, result.message && !verdict.because.includes(result.message) ? `On the way: ${result.message}` : "", score && SCORES];
    this._outcome.replaceChildren(
      make("details", {}, make("summary", {}, make("b.mark", { "aria-hidden": true }, verdict.mark), this._state, make("span.why", {}, short)), make("ul.because", {}, items), more.filter(Boolean).map((one) => make("p.quiet", { dir: "auto" }, one))),
      problem,
    );
  }

  _showBudgets(moment) {
    const counts = latest(this._record.counts, moment) ?? { decisions: 0, steps: 0 };
    const limits = this._record.header?.limits ?? {};
    const key = `${counts.decisions} ${counts.steps}`;
    if (key === this._budgetKey) return;
    this._budgetKey = key;
    const one = (name) => {
      const most = limits[name] ?? 0;
      const meter = make("meter", { min: 0, max: most || 1, high: 0.85 * most, optimum: 0, value: counts[name], "aria-label": name });
      return make("div.budget", {}, make("span", {}, COUNTS[name]), make("b", {}, String(counts[name])), most ? `/ ${most}` : "", meter);
    };
    this._budgets.replaceChildren(one("decisions"), one("steps"));
  }

  _open(number) {
    this._tab = number;
    this._body.dataset.pane = PANES[number];
    this._tabs.forEach((tab, other) => {
      tab.setAttribute("aria-selected", String(other === number));
      tab.tabIndex = other === number ? 0 : -1;
      if (other || NARROW.matches) this._paneHosts[other].hidden = other !== number;
      else this._paneHosts[other].hidden = false;
    });
    this._ask();
  }

  _tabKey(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const first = NARROW.matches ? 0 : 1, many = PANES.length - first;
    this._open(first + ((this._tab - first + by + many) % many));
    this._tabs[this._tab].focus();
  }

  _announce(text) {
    document.getElementById("said").textContent = visible(text);
  }

  // ------------------------------------------------------------------ the person

  /** Handle a key; return whether it has a meaning. */
  key(event) {
    if (event.key === "Escape") this._answering = false;
    if (this._answering && !this._course?.ended) return false; // the next question has not come yet
    const keys = {
      ".": () => this._timeline.step(1),
      ",": () => this._timeline.step(-1),
      r: () => this._mark("refusal", 1),
      R: () => this._mark("refusal", -1),
      f: () => this._mark("failure", 1),
      F: () => this._mark("failure", -1),
      l: () => this._goLive(),
      " ": () => this._timeline.play(),
      t: () => (NARROW.matches && this._open(0), this._tree.host.focus()),
      "/": () => (NARROW.matches && this._open(0), this._search.focus()),
      0: () => this._tree.foldAll(null),
      "+": () => this._tree.foldAll(false),
      "-": () => this._tree.foldAll(true),
      1: () => this._open(1),
      2: () => this._open(2),
      3: () => this._open(3),
    };
    if (this._course && !this._course.ended) {
      keys.p = () => this._pause.click();
      keys.c = () => this._askCancel();
      if (!this._step.hidden) keys.s = () => this._step.click();
      if (!this._form.hidden) keys.d = () => this._words.focus();
    }
    const isButton = event.target.closest?.("button, a, summary") && [" ", "Enter"].includes(event.key);
    if (isButton || !keys[event.key] || !this._record.length) return false;
    keys[event.key]();
    return true;
  }

  _mark(kind, direction) {
    if (this._timeline.mark(kind, direction)) {
      const decision = this._record.decisions[countUntil(this._record.decisions, this._moment) - 1];
      if (kind === "refusal" && decision) this.select(decision.node);
    } else this._announce(`no ${direction > 0 ? "later" : "earlier"} ${kind}`);
  }

  async _command(command, words) {
    try {
      await steer(this._run, command, words); // the stream shows the result
      return true;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this._say(error.message);
      return false;
    }
  }

  async _sayDecision() {
    this._goLive();
    if (await this._command("say", this._words.value)) this._words.select();
  }

  async _tell() {
    if (await this._command("tell", this._told.value)) this._told.value = "";
  }

  _askCancel() {
    const dialog = make(
      "dialog",
      { "aria-label": "Cancel the run" },
      make("p", {}, "Stop this run for good? Work in progress is cancelled."),
      make("form.answers", { method: "dialog" }, make("button", { value: "no", autofocus: true }, "Keep running"), make("button.danger", { value: "yes" }, "Cancel the run")),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (dialog.returnValue === "yes") this._command("cancel");
    });
    document.body.append(dialog);
    dialog.showModal();
  }

  _say(words) {
    this._notice.textContent = visible(words);
    this._announce(words);
  }
}

/** Explain the signs in the tree. */
function legend() {
  const flow = ([kind, [sign, does]]) => [make("dt", {}, make("span.square", {}, sign)), make("dd", {}, `${kind}: ${does}`)];
  const status = ([status, [mark, words]]) => [make("dt", {}, make(`span.round.${status || "idle"}`, {}, mark)), make("dd", {}, words)];
  const signs = Object.entries(FLOWS).map(([kind, [sign]]) => make("span.sign", {}, make("b", {}, sign), ` ${kind}`));
  return make(
    "details.legend",
    {},
    make("summary", {}, make("span", {}, "Legend"), signs),
    make("dl", {}, make("dt", {}, make("span.round.idle", {}, "")), make("dd", {}, "circle: an agent node, with its goal"), make("dt", {}, make("span.square", {}, "")), make("dd", {}, "square: control flow over the nodes below it"), Object.entries(FLOWS).map(flow), Object.entries(STATUSES).map(status), make("dt", {}, make("span.tag.bad", {}, "▲ 2")), make("dd", {}, "refused decisions of a branch")),
  );
}
