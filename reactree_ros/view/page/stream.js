// Communication with the server: records as they are written, the table of runs, and a person's commands.

/** Thrown if the server refuses; the message says why. */
export class Refused extends Error {}

export async function fetchRuns() {
  return (await answered(await fetch("/api/runs"))).json();
}

export async function steer(run, command, words = "") {
  const body = JSON.stringify({ do: command, run, words });
  const headers = { "Content-Type": "application/json" };
  await answered(await fetch("/api/steering", { method: "POST", headers, body }));
}

async function answered(response) {
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refused(said.error ?? `the server answered ${response.status}`);
}

/**
 * Follow a record to its end, and reconnect if the connection breaks.
 *
 * `take(events)` gets events in order, `steering(course)` the state of steering, and `state(words)` the connection:
 * "connected", "lost" or "ended". `signal` stops it.
 */
export async function follow(run, { take, steering, state, signal }) {
  let number = 0, ended = false;
  for (let wait = 500; !ended && !signal.aborted; wait = Math.min(2 * wait, 8000)) {
    try {
      const response = await answered(await fetch(`/api/events?run=${encodeURIComponent(run)}&from=${number}`, { signal }));
      state("connected");
      for await (const lines of linesOf(response.body)) {
        wait = 500;
        const events = [];
        for (const line of lines) {
          if (!line) continue;
          const event = parsed(line, number + events.length);
          if (event.e === "unreadable") throw new Refused(event.reason);
          if (event.e === "steering") steering(event);
          else events.push(event);
        }
        number += events.length;
        ended ||= events.at(-1)?.e === "end";
        if (events.length) take(events);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused) throw error;
    }
    if (ended) state("ended");
    else {
      state("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

function parsed(line, number) {
  try {
    const event = JSON.parse(line);
    if (typeof event?.e === "string") return event;
  } catch {
    // reported below
  }
  throw new Refused(`event ${number} of this record cannot be read: ${line.slice(0, 60)}`);
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    if (lines.length) yield lines;
  }
}
