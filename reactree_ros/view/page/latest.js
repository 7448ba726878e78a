// The latest run: a viewer at the newest moment moves on to the next run when it begins.

import { RunView } from "./run.js";
import { fetchRuns } from "./stream.js";
import { make } from "./text.js";

const REFRESH = 1000; // milliseconds

export class LatestView {
  constructor(page) {
    this._page = page;
    page.append(make("p.quiet", { role: "status" }, "No run has begun yet."));
  }

  async begin() {
    this._look((await fetchRuns()).runs);
    this._timer = setInterval(async () => {
      if (document.hidden) return;
      const again = await fetchRuns().catch(() => null); // the server is gone: nothing new
      if (again) this._look(again.runs);
    }, REFRESH);
  }

  close() {
    clearInterval(this._timer);
    this._view?.close();
  }

  key(event) {
    return this._view?.key(event);
  }

  _look([latest]) {
    if (!latest || latest.run === this._run || this._view?.isLive === false) return;
    this._view?.close();
    this._run = latest.run;
    this._page.replaceChildren();
    this._view = new RunView(this._page, latest.run);
    this._view.begin();
  }
}
