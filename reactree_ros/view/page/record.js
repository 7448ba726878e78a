// A record, read event by event. Everything keeps its history, so that each question can be asked about any
// moment. A moment is the number of the last event so far.

import { KINDS } from "./words.js";

/** Return how many items, sorted by `n`, have happened by a moment. */
export function countUntil(items, moment) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].n <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return the last item that has happened by a moment; undefined if none has. */
export function latest(items, moment) {
  return items[countUntil(items, moment) - 1];
}

/** What pictures may be: an address of anything else is not followed. */
const MEDIA = ["image/png", "image/jpeg"];
export const MOST_SAID = 400; // suggestions of what may be said
const GOALS = new Set(["agent", "goal"]);
const ZERO = { prompt: 0, cached: 0, output: 0, reasoning: 0, seconds: 0, requests: 0, refused: 0 };

class Node {
  constructor(values, born) {
    this.id = values.node;
    this.parent = values.parent;
    this.kind = values.kind;
    this.name = String(values.name || values.subgoal || "");
    this.depth = values.depth ?? null;
    this.policy = values.policy ?? "";
    this.robots = []; // {n, robot}: the robots that it and its subtree use, if there are several
    this.born = born;
    this.children = [];
    this.statuses = []; // {n, status, message}
    this.doing = []; // {n, skill}
    this.entries = []; // its conversation: {n, kind, text, …}
    this.started = []; // {n, index, decision}
    this.retrieved = []; // {n, experiences}
    this.ends = []; // {n, end, failure}
    this.tokens = []; // {n, prompt, cached, output, reasoning, seconds, requests, refused}
    this.decided = []; // {n}: decisions that count
    this.refusals = []; // {n}
    this.reply = this.verdict = this.seen = this.start = this.answer = null; // parts of the next entry
  }

  get isFlow() {
    return !GOALS.has(this.kind);
  }
}

export class Record {
  constructor() {
    this.header = null;
    this.end = null;
    this.length = 0; // events read
    this.odd = []; // numbers of events that make no sense
    this.nodes = []; // goal nodes and control flow, in the order of their growth
    this.byId = new Map(); // includes skills
    this.decisions = []; // {n, number, node, words, refused, begun, until}; includes ends, which have no own number
    this.counts = []; // {n, decisions, steps}
    this.begun = []; // {n}: agent nodes that began
    this.tokens = []; // {n, …} totals
    this.marks = []; // {n, kind, words}
    this.times = []; // seconds of every event
    this.holds = []; // {n, reason}
    this.things = new Map(); // name → {name, word, sightings: [{n, t, room, place, held, states}]}
    this.rooms = new Map(); // name → n
    this.looks = new Map(); // receptacle → [{n, t}]
    this.openable = new Map(); // name → n
    this.offers = []; // events: changes of what may be done
    this.pictures = []; // {n, picture: {source, words}}
    this.images = new Map(); // id of a picture → its bytes as an address
    this.spots = new Map(); // name → [{n, x, y, yaw, outline}]
    this.way = []; // {n, x, y, yaw}: where the agent was
    this.texts = new Map(); // id → turns
    this._undone = new Map(); // name of a branch → {node, why}: what was not done, by the result
  }

  get last() {
    return this.length - 1;
  }

  add(event) {
    const n = this.length++;
    this.times.push(event?.t ?? 0);
    try {
      this[`_${event.e}`]?.(event, n);
    } catch {
      this.odd.push(n); // a file may contain anything; show its valid events
    }
  }

  // ------------------------------------------------------------------ questions about a moment

  /** Return how many of `nodes` exist. */
  grown(moment) {
    let low = 0, high = this.nodes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.nodes[middle].born <= moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Return a behaviour's robot; empty if there is only one robot. */
  robot(node, moment) {
    for (let one = node; one; one = this.byId.get(one.parent)) {
      const last = latest(one.robots, moment);
      if (last) return last.robot;
    }
    return "";
  }

  /** Return how the run ended, if it has by a moment; the server gives the verdict. */
  verdict(moment) {
    return this.end && this.end.n <= moment ? this.end.verdict : null;
  }

  /** Return the displayed status of a behaviour; after the end, the root shows the run's. */
  status(node, moment) {
    if (node === this.nodes[0] && this.verdict(moment)) return this.verdict(moment).status;
    return latest(node.statuses, moment)?.status ?? "";
  }

  /** Return the behaviours from the root to the one that runs. */
  activePath(moment) {
    const path = [];
    let node = this.nodes[0];
    while (node && node.born <= moment && this.status(node, moment) === "running") {
      path.push(node);
      node = node.children.find((child) => child.born <= moment && this.status(child, moment) === "running");
    }
    return path;
  }

  /** Return what each behaviour had spent, and its branch: id → {own, branch, took}; `took`: seconds from beginning to end. */
  spent(moment) {
    if (this._spentAt === moment && this._spentOf === this.length) return this._spent;
    [this._spentAt, this._spentOf, this._spent] = [moment, this.length, new Map()];
    for (let i = this.grown(moment) - 1; i >= 0; i--) {
      const node = this.nodes[i];
      const tokens = latest(node.tokens, moment) ?? ZERO;
      const own = { decisions: countUntil(node.decided, moment), refused: countUntil(node.refusals, moment), tokens: tokens.prompt + tokens.output, seconds: tokens.seconds, cost: this.costOf(tokens) };
      const branch = { ...own };
      for (const child of node.children) {
        const below = this._spent.get(child.id)?.branch;
        for (const name in below) branch[name] += below[name];
      }
      const begun = node.statuses[0], last = latest(node.statuses, moment);
      const until = last?.status === "running" ? moment : last?.n;
      const took = last?.status ? (this.times[until] ?? 0) - (this.times[begun.n] ?? 0) : null;
      this._spent.set(node.id, { own, branch, took, key: Object.values(branch).join() + took });
    }
    return this._spent;
  }

  /** Return what tokens cost, by the prices of the run for a million; 0 without any. */
  costOf({ prompt, cached, output }) {
    const { price_input: dear = 0, price_cached: cheap = 0, price_output: said = 0 } = this.header?.options ?? {};
    return ((prompt - cached) * dear + cached * (cheap || dear) + output * said) / 1e6;
  }

  /** Return what may be said now, as far as it can be listed: skills, ends, and the beginnings of other decisions. */
  maySay() {
    const { options, control_flows: flows = [], no_thoughts: hasNone, more = [] } = this._maySay ?? {};
    if (options) return options;
    const offers = new Map();
    for (const { at = 0, added = [], removed = [], robot = "" } of this.offers) {
      if (!offers.has(robot)) offers.set(robot, []);
      offers.get(robot).splice(at, removed.length, ...added);
    }
    const skills = [...new Set([...offers.values()].flat().flatMap(saidAs))];
    const kinds = [hasNone ? "" : "think", flows.length ? "expand" : "", ...more].filter((kind) => KINDS[kind]);
    return [...kinds.map((kind) => `${KINDS[kind].label}: `), ...["done", "failure", ...skills].map((skill) => `${KINDS.act.label}: ${skill}`)];
  }

  /** Return why a behaviour failed, if there is more to say than that it, or a behaviour below it, did. */
  why(node, moment) {
    const told = this._undone.get(node.name);
    if (told && this.verdict(moment)) return told.why;
    const message = latest(node.statuses, moment)?.message ?? "";
    return message === "failure" || message.endsWith("ended in failure") ? "" : message;
  }

  /** Return the parts of a verdict: words of each, and the node that they are about; the first is about the end. */
  because(verdict) {
    const undone = [...this._undone].map(([name, { node }]) => [`'${name}' `, node]);
    const about = (words) => undone.find(([quoted]) => words.slice(words.indexOf("'")).startsWith(quoted))?.[1];
    const unmet = this.end.result.unmet ?? [];
    const list = unmet.join(", ");
    return verdict.reasons.flatMap((words, at) => {
      const one = { words, node: about(words) ?? (at ? undefined : this.decisions.at(-1)?.node) };
      if (!list || !words.endsWith(list)) return [one];
      return [{ ...one, words: words.slice(0, -list.length).trim() }, ...unmet.map((condition) => ({ words: condition, node: this._branchOf(condition) }))];
    });
  }

  /** Return the first agent node whose subgoal names all that a condition is about, such as `plate on sofa (1 of 2)`. */
  _branchOf(condition) {
    const things = condition.replace(/ \(.*\)$/, "").split(/ (?:on|in|turned) /);
    return this.nodes.find((node) => !node.isFlow && node !== this.nodes[0] && things.every((thing) => node.name.includes(thing)))?.id;
  }

  /** Return which conditions of the goal do not hold, once the run has ended. */
  unmet(moment) {
    return this.verdict(moment) ? (this.end.result.unmet ?? []) : [];
  }

  /** Return how many agent nodes had begun. */
  agents(moment) {
    return countUntil(this.begun, moment);
  }

  /** Return the moment after all effects of the first so many decisions and ends. */
  momentAfter(many) {
    if (!this.decisions.length) return this.last;
    if (many < 1) return Math.max(0, this.decisions[0].begun - 1);
    return this.decisions[Math.min(many, this.decisions.length) - 1].until ?? this.last;
  }

  /** Return the same for a decision by its number, from 1. */
  momentOfDecision(number) {
    const place = this.decisions.findIndex((decision) => decision.number >= number);
    return this.momentAfter(number < 1 ? 0 : place < 0 ? this.decisions.length : place + 1);
  }

  /** Return the moment of the next (or, with -1, the previous) mark of a kind; null if there is none. */
  mark(kind, moment, direction) {
    const ahead = (mark) => mark.kind === kind && (direction > 0 ? mark.n > moment : mark.n < moment);
    const found = this.marks.filter(ahead);
    return found.length ? found[direction > 0 ? 0 : found.length - 1].n : null;
  }

  // ------------------------------------------------------------------ events

  _run(event) {
    this.header = event;
  }

  _end(event, n) {
    this.end = { ...event, n };
    for (const words of event.result?.undone ?? []) {
      const [, name, , why] = /^'(.*?)' (failed: (.*)|was not reached)/s.exec(words) ?? [];
      const node = this.nodes.find((one) => !one.isFlow && one.name === name);
      if (node) this._undone.set(name, { node: node.id, why: why ?? "" });
    }
  }

  _grow(event, n) {
    for (const values of event.nodes) {
      const isRoot = values.parent === null && !this.nodes.length;
      // A known node, or one without a known parent, would break the tree.
      if (this.byId.has(values.node) || !(isRoot || this.byId.has(values.parent))) {
        this.odd.push(n);
        continue;
      }
      const node = new Node(values, n);
      this.byId.set(node.id, node);
      if (node.kind === "skill") continue;
      this.nodes.push(node);
      this.byId.get(node.parent)?.children.push(node);
    }
  }

  _robot(event, n) {
    this.byId.get(event.node)?.robots.push({ n, robot: event.robot });
  }

  _status(event, n) {
    for (const [id, status, message = ""] of event.of) {
      const node = this.byId.get(id);
      if (!node) continue;
      node.statuses.push({ n, status, message });
      if (status === "failure" && !node.isFlow) this.marks.push({ n, kind: "failure", words: node.name });
    }
  }

  _started(event, n) {
    this.begun.push({ n });
    this.byId.get(event.node)?.started.push({ n, index: event.index, decision: event.decision });
  }

  _retrieved(event, n) {
    const experiences = event.experiences.map((one) => ({ ...one, text: one.turns.map(textOf).join("\n") }));
    this.byId.get(event.node)?.retrieved.push({ n, experiences });
  }

  _text(event) {
    this.texts.set(event.id, event.turns);
  }

  _request(event, n) {
    const node = this.byId.get(event.node);
    this._maySay = event.may_say;
    if (node && event.start !== undefined && node.start !== event.start) {
      node.start = event.start;
      const turns = this.texts.get(event.start) ?? [];
      const text = turns.map(textOf).join("\n");
      node.entries.push({ n, kind: "start", text });
    }
  }

  /** Statuses that a decision brings about are told after the next request (in one process) or before it (over ROS). */
  _answered(n) {
    const before = this.decisions.at(-1);
    if (before && before.until === undefined) before.until = n - 1;
    this._answeredAt = n;
  }

  _reply(event, n) {
    this._answered(n);
    const node = this.byId.get(event.node);
    spend(this, event, n);
    if (!node) return;
    spend(node, event, n);
    node.reply = { n, ...event };
    if (event.warning) node.entries.push({ n, kind: "note", text: event.warning });
  }

  _decided(event, n) {
    const { kind, words, mark } = shownAs(event);
    const said = words.replace(/\{(\w+)\}/g, (_, field) => [event[field] ?? ""].flat().join(", "));
    this._decision(event, n, { n, refused: "" }, said);
    if (mark) this.marks.push({ n, kind: mark, words: event[kind] });
  }

  _refused(event, n) {
    this._decision(event, n, { n, refused: String(event.reason) }, String(event.said));
    this.marks.push({ n, kind: "refusal", words: event.reason });
  }

  _decision(event, n, verdict, words) {
    const node = this.byId.get(event.node);
    const before = this.decisions.at(-1);
    if (before && before.until === undefined) before.until = n - 1;
    if (event.decisions > (before?.number ?? 0)) node?.decided.push({ n });
    if (verdict.refused) node?.refusals.push({ n });
    this.decisions.push({ n, number: event.decisions, node: event.node, words, refused: verdict.refused, begun: this._answeredAt ?? n });
    this.counts.push({ n, decisions: event.decisions, steps: event.steps });
    if (!node) return;
    const open = node.entries.findLast((entry) => entry.kind === "said");
    if (open && !open.verdict) open.verdict = verdict;
    else node.verdict = verdict;
  }

  _skill(event, n) {
    this.byId.get(event.node)?.doing.push({ n, skill: event.robot ? `${event.robot}: ${event.skill}` : event.skill });
  }

  _turn(event, n) {
    const node = this.byId.get(event.node);
    if (!node) return;
    if (event.anew && node.entries.length) node.entries.push({ n, kind: "anew", text: "" });
    if (event.said !== undefined) {
      node.entries.push({ n, kind: "said", text: event.said, decision: event, reply: node.reply, verdict: node.verdict });
      node.reply = node.verdict = null;
    } else if (event.saw !== undefined) {
      node.entries.push({ n, kind: "saw", text: event.saw, seen: node.seen });
      node.seen = null;
    } else {
      node.entries.push({ n, kind: "told", text: event.told, about: event.about, by: event.about === "person" ? node.answer : "" });
      if (event.about === "person") node.answer = null;
    }
  }

  _observation(event, n) {
    const node = this.byId.get(event.node);
    const t = event.t ?? 0;
    if (node) {
      node.seen = { n, outcome: event.outcome ?? "done", pictures: this._pictures(event) };
      node.doing.push({ n, skill: "" });
    }
    if (event.of === "survey") return; // a planner's information, not an observation
    for (const room of event.rooms ?? []) if (!this.rooms.has(room)) this.rooms.set(room, n);
    for (const seen of event.seen ?? []) this._saw(seen, n, t);
    for (const seen of event.remembered ?? []) this._remembers(seen, n, t);
    if (event.looked_into) {
      push(this.looks, event.looked_into, { n, t });
      this._opens(event.looked_into, n);
    }
    for (const picture of this._pictures(event)) this.pictures.push({ n, picture });
    for (const { name, x, y, yaw, outline = [] } of event.spots ?? []) {
      if (!name) this.way.push({ n, x, y, yaw });
      else push(this.spots, name, { n, x, y, outline: outline.map(([cornerX, cornerY]) => ({ x: cornerX, y: cornerY })) });
    }
  }

  /** The pictures of an observation whose bytes are in the record; older records have one as a text. */
  _pictures(event) {
    const pictures = event.pictures ?? (event.picture ? [{ id: event.picture, media: "image/png", data: event.picture }] : []);
    for (const { id, media, data } of pictures) {
      if (data && MEDIA.includes(media)) this.images.set(id, `data:${media};base64,${data}`);
    }
    return pictures
      .filter(({ id }) => this.images.has(id))
      .map(({ id, camera, words }) => ({ source: this.images.get(id), words: [camera, words].filter(Boolean).join(": ") }));
  }

  _saw(seen, n, t) {
    const name = named(seen);
    let thing = this.things.get(name);
    if (!thing) this.things.set(name, (thing = { name, sightings: [] }));
    const states = seen.states ?? [];
    if (seen.room && !this.rooms.has(seen.room)) this.rooms.set(seen.room, n);
    thing.sightings.push({ n, t, room: seen.room ?? "", place: seen.place ?? "", held: !!seen.held, states });
    if (states.includes("OPEN") || states.includes("CLOSED")) this._opens(name, n);
  }

  /** Take in what was seen before the run, unless it has been seen since; not where such things are found at times. */
  _remembers(seen, n, t) {
    const states = (seen.states ?? []).filter((state) => state !== "REMEMBERED");
    if (states.includes("PERHAPS") || this.things.has(named(seen))) return;
    this._saw({ ...seen, states: ["REMEMBERED", ...states] }, n, t);
  }

  _skills(event, n) {
    this.offers.push(event);
    for (const skill of event.added ?? []) if (typeof skill === "string" && skill.startsWith("open ")) this._opens(skill.slice(5), n);
  }

  _opens(name, n) {
    if (!this.openable.has(name)) this.openable.set(name, n);
  }

  _answer(event, n) {
    const node = this.byId.get(event.node);
    if (node) node.answer = event.by;
    this.marks.push({ n, kind: "person", words: event.text });
  }

  _heard(event, n) {
    this.marks.push({ n, kind: "person", words: event.text });
  }

  _held(event, n) {
    this.holds.push({ n, reason: event.reason });
    if (event.reason) this.marks.push({ n, kind: "hold", words: event.reason });
  }

  _shortened(event, n) {
    const done = event.dropped ? `${event.dropped} examples were dropped` : "its example is shorter now";
    const text = `The prompt was ${event.excess} tokens too long; ${done}.`;
    this.byId.get(event.node)?.entries.push({ n, kind: "note", text });
  }

  _differs(event, n) {
    const text = `The replay gave a different result: ${event.text}`;
    this.byId.get(event.node)?.entries.push({ n, kind: "error", text });
  }

  _failed(event, n) {
    if (event.of === "reply") this._answered(n);
    const text = `${event.type}: ${event.message}`;
    const node = this.byId.get(event.node);
    for (const spender of event.took ? [this, node] : []) if (spender) spend(spender, event.took, n);
    node?.entries.push({ n, kind: "error", text, reply: event.took });
    if (event.kind !== "context_full") this.marks.push({ n, kind: "failure", words: text });
  }

  _ended(event, n) {
    this.byId.get(event.node)?.ends.push({ n, end: event.end, failure: event.failure, unreached: event.unreached });
  }
}

const NO_KIND = { kind: "", label: "Said", words: "", colour: "", mark: "" };

/** Return how the decision of a turn or an event is shown, as its kind declares it. */
export function shownAs(decision) {
  const kind = Object.keys(KINDS).find((name) => decision[name] !== undefined);
  return kind ? { kind, ...KINDS[kind] } : NO_KIND;
}

/** Return a thing's name; instance 0: its word is its own name, as `nurse desk`. */
function named({ word, instance }) {
  return instance ? `${word} ${instance}` : word;
}

/** Return how an offer may be said, with each value that fits; not if a value is free. */
function saidAs(offer) {
  if (typeof offer === "string") return [offer];
  const fill = (said, [name, values]) => said.flatMap((words) => values.map((value) => words.replace(`{${name}}`, value))).slice(0, MOST_SAID);
  return Object.entries(offer.now).reduce(fill, [offer.skill.wording]).filter((words) => !words.includes("{"));
}

function textOf(turn) {
  return turn.told ?? turn.said ?? turn.saw ?? "";
}

/** Add what a reply took to what a run or a node has spent. */
function spend({ tokens }, reply, n) {
  tokens.push(added({ ...(tokens.at(-1) ?? ZERO), n }, reply));
}

function added(sum, reply) {
  sum.prompt += reply.prompt_tokens ?? 0;
  sum.cached += reply.cached_tokens ?? 0;
  sum.output += reply.output_tokens ?? 0;
  sum.reasoning += reply.reasoning_tokens ?? 0;
  sum.seconds += reply.seconds ?? 0;
  sum.requests += reply.attempts?.length || 1;
  sum.refused += (reply.attempts ?? []).filter(({ objection, finish_reason }) => objection && finish_reason !== "failed").length;
  return sum;
}

/** Return the requests after which the model was asked again, or another one was. */
export function inVain(reply) {
  return (reply?.attempts ?? []).slice(0, -1).filter(({ objection }) => objection);
}

function push(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}
