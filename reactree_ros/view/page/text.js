// Puts text into the page. It comes from models, worlds and files, and is always treated as plain characters.

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u0080-\u009f]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;
const LONGEST = 2000;
const NUMBERS = new Intl.NumberFormat("en");

/** Return a text in which control characters are visible characters. */
export function visible(text) {
  return String(text)
    .toWellFormed()
    .replace(CONTROL, (c) => (c === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt(0))))
    .replace(TURNING, (c) => `<${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
}

/** Make an element: `make("p.quiet", {title: "…"}, "words", child, …)`. */
export function make(what, attributes = {}, ...children) {
  const [name, ...classes] = what.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : visible(child));
  }
  return element;
}

/** Make an element with foreign text, in its own direction; a button shows the rest of a very long text. */
export function words(what, text) {
  const element = make(what, { dir: "auto" }, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
  element.classList.add("words");
  if (text.length <= LONGEST) return element;
  const all = make("button.more", { type: "button" }, `Show all ${count(text.length)} characters`);
  all.addEventListener("click", () => {
    element.textContent = visible(text);
    all.remove();
  });
  return make("div", {}, element, all);
}

/** Write a number with separated thousands. */
export function count(number) {
  return number === null || number === undefined ? "–" : NUMBERS.format(number);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.95) return `${Math.round(1000 * value)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const whole = Math.round(value);
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
