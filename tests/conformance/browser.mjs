// A page with a plain `EventSource`: it has an address and nothing else. Prints what it gets, one line each.
import { EventSource } from "eventsource";

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const source = new EventSource(process.argv[2]);
source.addEventListener("data", (event) => {
  for (const entry of JSON.parse(event.data)) say({ entry });
});
source.addEventListener("control", (event) => say({ control: JSON.parse(event.data) }));
source.addEventListener("error", (event) => {
  const isOver = source.readyState === EventSource.CLOSED;
  say({ error: event.code ?? null, isOver });
});
