// The world from above, if it has poses: rooms, furniture, things seen there, the robot and its path.

import { countUntil, latest } from "./record.js";
import { visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDEST = 440, HIGHEST = 400; // pixels
const MARGIN = 0.4; // metres
const LETTER = 5.4, LINE = 11; // pixels of a name's letters and lines
const ROBOT = "M11 0L-7 7-3 0-7-7z";

/** Draw the known places of things at a moment; null if the record has none. */
export function drawMap(record, moment, { rooms, closed }) {
  const spots = [...record.spots].map(([name, all]) => ({ name, at: latest(all, moment) })).filter(({ name, at }) => at && isThere(record, name, moment));
  const way = record.way.slice(0, countUntil(record.way, moment));
  if (!spots.length && !way.length) return null;
  const points = [...spots.flatMap(({ at }) => [at, ...at.outline]), ...way];
  const [left, right] = ends(points.map(({ x }) => x));
  const [bottom, top] = ends(points.map(({ y }) => y));
  const scale = Math.min(WIDEST / (right - left), HIGHEST / (top - bottom));
  const place = ({ x, y }) => [round((x - left) * scale), round((top - y) * scale)];
  const [width, height] = [round((right - left) * scale), round((top - bottom) * scale)];
  const svg = element("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Map" });
  const names = new Names(svg, width);
  const robot = way.at(-1);
  const kindOf = (name, at) => (rooms.has(name) ? "floor" : at.outline.length ? "standing" : "lying");
  const order = ["floor", "standing", "lying"];
  const drawn = spots.map(({ name, at }) => ({ name, at, kind: kindOf(name, at) })).sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  for (const { name, at, kind } of drawn) svg.append(shape(name, at, kind, closed.includes(name), place));
  if (robot) svg.append(element("path", { class: "way", d: `M${way.map((at) => place(at).join(" ")).join("L")}`, "aria-hidden": true }), arrow(robot, place));
  if (robot) names.keep(...place(robot), 20, 20);
  for (const { name, at, kind } of drawn.reverse()) {
    if (kind === "floor") corners(at, place).some(([x, y]) => names.write(name, kind, x, y));
    else names.write(name, kind, place(at)[0], place(at)[1] + (kind === "lying" ? -8 : 4));
  }
  return svg;
}

/** Whether a thing still lies where it was seen: it is neither held nor gone. */
function isThere(record, name, moment) {
  const seen = latest(record.things.get(name)?.sightings ?? [], moment);
  return !seen || !(seen.held || seen.states.includes("GONE"));
}

function shape(name, at, kind, isClosed, place) {
  const spoken = `${name}, ${metres(at)}${isClosed ? ", never opened" : ""}`;
  const [x, y] = place(at);
  const made = at.outline.length
    ? element("polygon", { points: at.outline.map((one) => place(one).join(",")).join(" ") })
    : element("circle", { cx: x, cy: y, r: 3.5 });
  return titled(made, `${kind}${isClosed ? " closed" : ""}`, spoken);
}

function arrow(at, place) {
  const [x, y] = place(at);
  const turn = round((-(at.yaw ?? 0) * 180) / Math.PI);
  return titled(element("path", { d: ROBOT, transform: `translate(${x} ${y}) rotate(${turn})` }), "robot", `the robot, ${metres(at)}`);
}

function titled(made, kind, spoken) {
  made.setAttribute("class", kind);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", visible(spoken));
  made.append(element("title", {}, spoken));
  return made;
}

/** Return possible places of a room's name: its upper and its lower left corner. */
function corners(at, place) {
  const found = (at.outline.length ? at.outline : [at]).map(place);
  const left = Math.min(...found.map(([x]) => x)) + 4;
  const ups = found.map(([, y]) => y);
  return [[left, Math.min(...ups) + LINE + 2], [left, Math.max(...ups) - 5]];
}

/** Names next to their things; only pointer and screen reader give a name that would overlap another. */
class Names {
  constructor(svg, width) {
    this._svg = svg;
    this._width = width;
    this._taken = [];
  }

  keep(x, y, wide, high) {
    this._taken.push({ x, y, wide, high });
  }

  /** Write a name; return whether there was room. */
  write(name, kind, x, y) {
    const shown = name.length > 24 ? `${name.slice(0, 23)}…` : name;
    const wide = shown.length * LETTER;
    const middle = kind === "floor" ? x + wide / 2 : Math.min(Math.max(x, wide / 2), Math.max(wide / 2, this._width - wide / 2));
    const isFree = ({ x: otherX, y: otherY, wide: otherWide, high }) => Math.abs(otherX - middle) * 2 >= wide + otherWide || Math.abs(otherY - y) * 2 >= LINE + high;
    if (!this._taken.every(isFree)) return false;
    this.keep(middle, y, wide, LINE);
    this._svg.append(element("text", { class: kind, x: round(middle), y: round(y), "aria-hidden": true }, shown));
    return true;
  }
}

function ends(numbers) {
  let low = Infinity, high = -Infinity;
  for (const number of numbers) [low, high] = [Math.min(low, number), Math.max(high, number)];
  return [low - MARGIN, high + MARGIN];
}

function metres({ x, y }) {
  return `at ${x.toFixed(1)}, ${y.toFixed(1)} m`;
}

function round(number) {
  return Math.round(number * 10) / 10;
}

function element(name, attributes, words = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words) made.textContent = visible(words);
  return made;
}
