// Next to the tree: the chosen node's conversation, the known world, the run's counts, all at one moment.

import { drawMap } from "./map.js";
import { countUntil, inVain, latest, shownAs } from "./record.js";
import { count, make, seconds, words } from "./text.js";
import { SPOKEN } from "./tree.js";
import { COUNTS, FLOWS } from "./words.js";

const KINDS = { agent: "agent node", goal: "agent node", ...Object.fromEntries(Object.entries(FLOWS).map(([kind, [sign, does]]) => [kind, `${kind} ${sign}: ${does}`])) };
const KINDS_OF_NOTE = { note: "Note", error: "Error" };
const OUTCOMES = { done: "", precondition: "refused by the world", unknown_skill: "unknown skill" };

/** Draw a picture; what is said of it is shown where the mouse rests. */
function image({ source, words: said }, what) {
  return make("img.picture", { src: source, alt: [what, said].filter(Boolean).join(": "), title: said });
}

/** The chosen node: its goal, its status and its conversation. */
export class NodePanel {
  constructor(host, { jump }) {
    this._host = host;
    this._jump = jump;
    this._head = host.appendChild(make("div.node-head"));
    this._list = host.appendChild(make("ol.turns", { "aria-label": "Conversation" }));
    this._drawn = [];
  }

  /** Show a node's conversation; `found`: entries to mark, `sought`: the one to scroll to. */
  show(record, id, moment, { follow = false, found = null, sought = null } = {}) {
    const node = record?.byId.get(id);
    if (!node || node.born > moment) {
      this._head.replaceChildren(make("p.empty", {}, "Choose a node in the tree to see its conversation."));
      this._list.replaceChildren();
      this._drawn = [];
      this._id = null;
      return;
    }
    this._showHead(record, node, moment);
    let isNew = false;
    if (this._id !== id || this._record !== record) {
      this._list.replaceChildren();
      this._drawn = [];
      [this._id, this._record] = [id, record];
      this._host.scrollTop = 0;
      isNew = true;
    }
    const entries = node.entries.slice(0, countUntil(node.entries, moment));
    const atEnd = follow && (isNew || this._host.scrollTop + this._host.clientHeight > this._host.scrollHeight - 60);
    while (this._drawn.length > entries.length) this._drawn.pop().element.remove();
    entries.forEach((entry, number) => {
      const key = `${happened(entry.reply, moment)}${happened(entry.verdict, moment)}`;
      const drawn = this._drawn[number];
      if (drawn?.entry === entry && drawn.key === key) return;
      const element = this._entry(entry, moment);
      if (drawn) drawn.element.replaceWith(element);
      else this._list.append(element);
      this._drawn[number] = { entry, key, element };
    });
    for (const { entry, element } of this._drawn) element.classList.toggle("found", Boolean(found?.has(entry)));
    if (sought) this._drawn.find(({ entry }) => entry === sought)?.element.scrollIntoView({ block: "center" });
    else if (atEnd) this._host.scrollTop = this._host.scrollHeight;
  }

  _showHead(record, node, moment) {
    const status = record.status(node, moment);
    const message = status === "failure" ? record.why(node, moment) : (latest(node.statuses, moment)?.message ?? "");
    const started = latest(node.started, moment);
    const tokens = latest(node.tokens, moment);
    const end = latest(node.ends, moment);
    const { own, branch, took } = record.spent(moment).get(node.id);
    const robot = record.robot(node, moment);
    const key = JSON.stringify([node.id, robot, status, message, started, tokens?.n, end?.n, branch, took, latest(node.retrieved, moment)?.n]);
    if (key === this._key) return;
    this._key = key;
    const facts = [
      ["Kind", KINDS[node.kind] ?? node.kind],
      ["Began", started && `as number ${started.index + 1}, with decision ${started.decision}`],
      ["Depth", node.depth],
      ["Requests", tokens && requestWords(tokens)],
      ["Tokens", tokens?.prompt ? tokenWords(tokens) : ""],
      ["Spent", totals({ ...own, tokens: 0 })],
      ["Its branch", node.children.length ? totals(branch) : ""],
      ["Took", took === null ? "" : seconds(took)],
      ["Policy", node.policy],
      ["Robot", robot],
      ["Ended", end && (end.unreached ? SPOKEN[""] : endWords(end.failure?.kind ?? end.end))],
    ].filter(([, value]) => value || value === 0);
    this._head.replaceChildren(
      make("div.chips", {}, make(`span.chip.${status || "idle"}`, {}, SPOKEN[status])),
      words("h2.goal", node.isFlow ? node.kind : node.name),
      message ? words("p.message", message) : "",
      make("dl.facts", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", { dir: "auto" }, value)])),
      experiences(latest(node.retrieved, moment)?.experiences ?? []),
    );
  }

  _entry(entry, moment) {
    if (entry.kind === "anew") return make("li.turn.anew", {}, "The node starts again here, without the turns above.");
    if (entry.kind === "start") return folded("start", "System text and examples", entry.text);
    if (entry.kind === "said") return this._said(entry, moment);
    if (entry.kind === "saw") {
      const outcome = entry.seen?.outcome ?? "done";
      const bad = outcome === "done" ? "" : make("span.tag.bad", {}, OUTCOMES[outcome] || outcome.replaceAll("_", " "));
      const pictures = (entry.seen?.pictures ?? []).map((picture) => image(picture, "What the camera saw"));
      return make("li.turn.saw", {}, this._meta(entry, "Saw", bad), words("div.text", entry.text), ...pictures);
    }
    if (entry.kind === "told") {
      if (entry.about === "answer" && entry.text.length < 4) return make("li.turn.answer", {}, words("span", entry.text));
      const about = { task: "Task", person: "A person" }[entry.about] ?? "Told";
      const by = entry.by ? make("span.tag", {}, entry.by) : "";
      return make(`li.turn.told.${String(entry.about).replace(/\W/g, "")}`, {}, this._meta(entry, about, by), words("div.text", entry.text));
    }
    return make(`li.turn.${entry.kind}`, {}, this._meta(entry, KINDS_OF_NOTE[entry.kind]), words("div.text", entry.text), askedAgain(entry.reply));
  }

  _said(entry, moment) {
    const { decision } = entry;
    const reply = happened(entry.reply, moment) ? entry.reply : null;
    const refused = happened(entry.verdict, moment) ? entry.verdict.refused : "";
    const { label, colour } = shownAs(decision);
    const spent = reply ? spentWords(reply) : "";
    const by = reply?.answered_by ? make("span.tag", {}, reply.answered_by) : "";
    const item = make(
      `li.turn.said${refused ? ".refused" : ""}`,
      {},
      this._meta(entry, refused ? `${label} · refused` : label, by),
      words("div.text", entry.text),
      refused ? words("p.reason", refused) : "",
      reply?.reasoning ? folded("reasoning", `Reasoning (${count(reply.reasoning_tokens)} tokens)`, reply.reasoning, "div") : "",
      askedAgain(reply),
      spent ? make("p.spent", {}, spent) : "",
    );
    if (colour) item.style.setProperty("--kind", `var(${colour})`);
    return item;
  }

  _meta(entry, kind, ...more) {
    const jump = make("button.when", { type: "button", title: "Go to this moment", onclick: () => this._jump(entry.n) }, `#${entry.n}`);
    return make("div.meta", {}, make("span.kind", {}, kind), ...more, jump);
  }
}

/** The known world: rooms, furniture, things seen there and when. */
export class WorldPanel {
  constructor(host) {
    this._host = host;
  }

  show(record, moment) {
    const key = [record.things.size, record.counts.length, moment].join();
    if (this._record === record && this._key === key) return;
    const open = new Set([...this._host.querySelectorAll("details:not([open])")].map((one) => one.dataset.name));
    [this._record, this._key] = [record, key];
    const known = knownWorld(record, moment);
    const rooms = [...known.rooms].map(([room, places]) => {
      const number = [...places.values()].reduce((sum, things) => sum + things.length, 0);
      const list = [...places].map(([place, things]) => this._place(record, place, things, moment, open));
      return disclosure("room", room || "somewhere", count(number), list, !open.has(room));
    });
    const picture = latest(record.pictures, moment)?.picture;
    const named = inInstruction(record, known).map((thing) => this._thing(thing, thing.at ? whereabouts(thing.name, thing.at) : "never seen"));
    this._host.replaceChildren(
      section("Named in the instruction, and when last seen", named),
      drawMap(record, moment, known) ?? "",
      picture ? image(picture, "What the camera saw last") : "",
      section("Held", known.held.map((thing) => this._thing(thing))),
      section("Rooms, and when things were last seen", rooms.length ? rooms : [make("p.empty", {}, "Nothing has been seen yet.")], "div"),
      section("Never opened", known.closed.map((name) => make("li", { dir: "auto" }, name))),
    );
  }

  _place(record, place, things, moment, open) {
    if (!place) return make("ul.things", {}, things.map((thing) => this._thing(thing)));
    const look = latest(record.looks.get(place) ?? [], moment);
    const when = look ? `opened at ${seconds(look.t)}` : "";
    return disclosure("place", place, when, [make("ul.things", {}, things.map((thing) => this._thing(thing)))], !open.has(place));
  }

  _thing({ name, at }, where = null) {
    return make("li", { dir: "auto" }, make(where === null ? "span.thing" : "span.named", {}, name), where ? make("span.where", {}, where) : "", at ? [at.states.map((state) => make("span.state", {}, state.toLowerCase())), make("span.ago", { title: "Last seen, from the beginning of the run" }, seconds(at.t))] : "");
  }
}

/** Return the known world at a moment: `{rooms: room → place → things, held, closed, seen}`. */
export function knownWorld(record, moment) {
  const rooms = new Map();
  const held = [];
  const seen = [];
  for (const [room, n] of record.rooms) if (n <= moment) rooms.set(room, new Map());
  const into = (room, place, thing) => {
    if (!rooms.has(room)) rooms.set(room, new Map());
    const places = rooms.get(room);
    if (!places.has(place)) places.set(place, []);
    if (thing) places.get(place).push(thing);
  };
  for (const { name, sightings } of record.things.values()) {
    const at = latest(sightings, moment);
    if (!at || at.states.includes("GONE")) continue;
    seen.push({ name, at });
    if (at.held) held.push({ name, at });
    else into(at.room, at.place === name ? "" : at.place, { name, at }); // furniture is not at itself
  }
  const carried = new Set((record.header?.recallable ?? []).map(wordOf)); // a milk can be opened, too, but nothing is in it
  const closed = [...record.openable].filter(([name, n]) => n <= moment && !carried.has(wordOf(name)) && !latest(record.looks.get(name) ?? [], moment)).map(([name]) => name);
  return { rooms, held, closed, seen };
}

function wordOf(name) {
  return name.toLowerCase().replace(/\s*\d+$/, "");
}

/** Return the things that the instruction names, by all words of their names except the number; first those never seen. */
function inInstruction(record, known) {
  const words = new Set([...known.seen.map(({ name }) => wordOf(name)), ...(record.header?.recallable ?? []).map(wordOf)]);
  const named = new Set();
  let said = ` ${String(record.header?.instruction ?? "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ")} `;
  for (const one of [...words].filter(Boolean).sort((a, b) => b.length - a.length)) { // not glasses in water glasses
    for (const form of [one, `${one}s`, `${one}es`]) {
      if (!said.includes(` ${form} `)) continue;
      named.add(one);
      said = said.replaceAll(` ${form} `, " | ");
    }
  }
  const seen = known.seen.filter(({ name }) => named.has(wordOf(name)));
  for (const { name } of seen) named.delete(wordOf(name));
  return [...[...named].map((name) => ({ name })), ...seen].sort((a, b) => Boolean(a.at) - Boolean(b.at) || a.name.localeCompare(b.name, "en", { numeric: true }));
}

function whereabouts(name, at) {
  return at.held ? "held" : [at.place && at.place !== name && `at ${at.place}`, at.room && `in ${at.room}`].filter(Boolean).join(", ");
}

/** The run: its task, planner, model, cost so far, and ending. */
export class RunPanel {
  constructor(host) {
    this._host = host;
  }

  show(record, moment) {
    const header = record.header ?? {};
    const tokens = latest(record.tokens, moment);
    const counts = latest(record.counts, moment) ?? { decisions: 0, steps: 0 };
    const unmet = record.unmet(moment);
    const key = JSON.stringify([header.id, tokens?.n, record.agents(moment), counts, unmet]);
    if (key === this._key) return;
    this._key = key;
    const rows = (pairs) => make("dl.facts", {}, pairs.filter(([, value]) => value !== null && value !== undefined && value.length !== 0).map(([name, value]) => [make("dt", {}, name), make("dd", { dir: "auto" }, value)]));
    const { llm, ...settings } = header.llm ?? {};
    this._host.replaceChildren(
      rows([
        ["Instruction", header.instruction],
        ["Does not hold", unmet.map((one) => make("div", {}, one))],
        ["Task", header.task_id === null ? header.task_name : `${header.task_id} ${header.task_name}`],
        ["Planner", named(header.planner?.name, header.planner?.options)],
        ["Language model", named(llm, settings)],
        ["World", named(header.world?.name ?? header.world?.suite, header.world?.settings)],
        ["House", header.world?.house],
        ["Began", header.started],
        ["Parent", header.parent && `${header.parent.id}, from decision ${header.parent.decision}`],
      ]),
      make("h2.part", {}, "Spent"),
      rows([
        ...Object.entries({ ...counts, agent_nodes: record.agents(moment) }).filter(([name]) => COUNTS[name]).map(([name, value]) => [capital(COUNTS[name]), count(value)]),
        ["Requests", tokens && requestWords(tokens)],
        ["Prompt tokens", tokens?.prompt ? count(tokens.prompt) : ""],
        ["Cached", tokens?.prompt ? share(tokens) : ""],
        ["Output tokens", tokens?.output ? count(tokens.output) : ""],
        ["Reasoning tokens", tokens?.reasoning ? count(tokens.reasoning) : ""],
        ["Model", tokens && seconds(tokens.seconds)],
        ["Cost", tokens && record.costOf(tokens) ? record.costOf(tokens).toPrecision(3) : ""],
      ]),
    );
  }
}

/** Return GSR and SSR in words; empty if the run has no goal condition. */
export function scores(result) {
  const known = ["gsr", "ssr"].filter((name) => typeof result?.[name] === "number");
  return known.map((name) => `${name.toUpperCase()} ${result[name].toFixed(2)}`).join(", ");
}

function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function endWords(end) {
  return String(end ?? "").replaceAll("_", " ");
}

function named(name, settings = {}) {
  return [name, ...Object.entries(settings).map(([setting, value]) => `${setting}=${JSON.stringify(value)}`)].join(" ").trim();
}

function happened(one, moment) {
  return Boolean(one) && one.n <= moment;
}

function share(tokens) {
  return `${Math.round((100 * tokens.cached) / tokens.prompt)} %`;
}

function tokenWords(tokens) {
  return `${count(tokens.prompt)} in (${share(tokens)} cached), ${count(tokens.output)} out`;
}

function totals({ decisions, tokens, seconds: model, cost }) {
  const parts = [decisions && `${count(decisions)} decision${decisions === 1 ? "" : "s"}`, tokens && `${count(tokens)} tokens`, model >= 0.001 && `${seconds(model)} of the model`, cost && `cost ${cost.toPrecision(3)}`];
  return parts.filter(Boolean).join(", ");
}

function requestWords({ requests, refused }) {
  return refused ? `${count(requests)} (${count(refused)} refused)` : count(requests);
}

/** Show what the model said in vain before, and why it was asked again. */
function askedAgain(reply) {
  const vain = inVain(reply);
  const one = ({ text, objection }) => make("li", {}, text ? words("div.text", text) : "", words("p.reason", objection));
  return vain.length ? make("details.in-vain", {}, make("summary", {}, vain.length > 1 ? `Asked again ${vain.length} times` : "Asked again"), make("ol", {}, vain.map(one))) : "";
}

function spentWords(reply) {
  const parts = [];
  if (reply.prompt_tokens) {
    const cached = reply.cached_tokens === undefined ? "" : ` (${Math.round((100 * reply.cached_tokens) / reply.prompt_tokens)} % cached)`;
    parts.push(`${count(reply.prompt_tokens)} tokens in${cached}`);
  }
  if (reply.pictures) parts.push(`${count(reply.pictures)} picture${reply.pictures === 1 ? "" : "s"}`);
  if (reply.output_tokens) parts.push(`${count(reply.output_tokens)} out`);
  if (reply.seconds >= 0.001) parts.push(seconds(reply.seconds));
  if (reply.finish_reason === "length") parts.push("truncated at the token limit");
  return parts.join(" · ");
}

function folded(kind, title, text, tag = "li") {
  const details = make("details", {}, make("summary", {}, title));
  details.addEventListener("toggle", () => details.childElementCount === 1 && details.append(words("div.text", text)), { once: true });
  return make(`${tag}.turn.${kind}`, {}, details);
}

function experiences(found) {
  if (!found.length) return "";
  const one = ({ subgoal, similarity, text }) =>
    make("details.experience", {}, make("summary", { dir: "auto" }, subgoal, similarity === undefined ? "" : make("span.tag", {}, Number(similarity).toFixed(2))), words("div.text", text));
  return make("details.retrieved", {}, make("summary", {}, `${found.length} retrieved experiences`), found.map(one));
}

function disclosure(kind, name, note, children, open) {
  return make(`details.${kind}`, { "data-name": name, open }, make("summary", { dir: "auto" }, name, make("span.note", {}, note)), children);
}

function section(title, children, list = "ul") {
  return children.length ? make("section", {}, make("h2.part", {}, title), make(`${list}.things`, {}, children)) : "";
}
