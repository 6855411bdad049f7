// The official conformance suite of Durable Streams against a server of ours.
//
// The suite knows no keys, since the protocol leaves them to servers. Requests that bring none of their own get ours here,
// so that the server needs no mode without them.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

const { HOLM_URL, HOLM_API_KEY, HOLM_LONG_POLL_MILLISECONDS } = process.env;

const plain = globalThis.fetch;
globalThis.fetch = (input, init = {}) => {
  const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));
  const isOurs = String(input instanceof Request ? input.url : input).startsWith(HOLM_URL);
  if (isOurs && !headers.has("authorization")) {
    headers.set("authorization", `Bearer ${HOLM_API_KEY}`);
  }
  return plain(input, { ...init, headers });
};

runConformanceTests({
  baseUrl: HOLM_URL,
  longPollTimeoutMs: Number(HOLM_LONG_POLL_MILLISECONDS),
  subscriptions: true,
});
