// Shows the view in the address: the table of runs, one run, the latest run, or two side by side.

import { CompareView } from "./compare.js";
import { LatestView } from "./latest.js";
import { RunView } from "./run.js";
import { Refused } from "./stream.js";
import { TableView } from "./table.js";
import { make } from "./text.js";

const page = document.getElementById("page");
const keys = document.getElementById("keys");
let view = null;

async function open() {
  view?.close();
  view = null;
  page.replaceChildren();
  const [kind, ...named] = location.hash.slice(1).split("/").filter(Boolean).map(decodeURIComponent);
  const views = { run: RunView, latest: LatestView, compare: CompareView };
  const Kind = views[kind] ?? TableView;
  try {
    const opening = new Kind(page, ...named);
    view = opening;
    await opening.begin();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    page.replaceChildren(make("p.problem", { role: "alert" }, error.message), make("a", { href: "#/" }, "All runs"));
  }
}

addEventListener("hashchange", open);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (event.key === "Escape" && event.target.matches?.("input, select")) return event.target.blur();
  if (event.target.closest?.("input:not(.slider), textarea, select, dialog")) return;
  if (event.key === "?") keys.showModal();
  else if (!view?.key?.(event)) return;
  event.preventDefault();
});
open();
