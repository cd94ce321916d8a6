// What the dashboard computes from samples: rates over restarts, quantiles as Prometheus interpolates them, and a bounded history.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const module = readFileSync(new URL("../../crates/dashboard/web/traffic.js", import.meta.url), "utf8");
const { remember, engines, pickers, decoders, demand, rate, grown, share, firstToken, gauges, only } = await import(
  `data:text/javascript,${encodeURIComponent(module)}`
);

let now = 1_000_000_000_000;
Date.now = () => now;
const engine = (pod, sample, role = "decode") => ({
  service: "n/a",
  pod,
  role,
  sample: { waiting: 0, running: 0, kvUsage: 0, queries: 0, hits: 0, promptTokens: 0, tokens: 0, requests: 0, errors: 0, firstTokens: 0, firstTokenBuckets: [], ...sample },
});
const begin = now;
remember([engine("one", { requests: 100, tokens: 5000 }), engine("two", { requests: 7, running: 3 }), { service: "n/a", pod: "three", role: "decode", trouble: "no answer" }]);
assert.equal(rate(decoders("n/a"), "requests", now - 60_000, now), null, "one sample has no rate");
assert.deepEqual(gauges(engines("n/a"), "running", now), [0, 3]);

// What was counted before the page was open does not count, and a restart loses nothing.
now += 10_000;
remember([engine("one", { requests: 120, tokens: 6000, firstTokens: 10, firstTokenBuckets: [[0, 0.1, 5], [0.1, 0.2, 5]] })]);
now += 10_000;
remember([engine("one", { requests: 5, tokens: 100, firstTokens: 10, firstTokenBuckets: [[0.2, null, 10]], hits: 30, queries: 40 })]);
assert.equal(grown(decoders("n/a"), "requests", begin, now), 25);
assert.equal(rate(decoders("n/a"), "requests", begin - 60_000, now), 1.25);
assert.equal(grown(only("n/a", "one"), "requests", begin, begin + 10_000), 20);
assert.equal(share(engines("n/a"), "hits", "queries", begin, now), 0.75);
assert.equal(share(only("n/a", "two"), "hits", "queries", begin, now), null);

// Without a picker, the engines that decode count requests; with one, the picker does.
assert.deepEqual(demand("n/a", begin, now), { rate: 1.25, requests: 25, errors: 0 });
remember([{ service: "n/a", pod: "picker", role: "picker", sample: { requests: 10, errors: 1 } }, engine("four", { requests: 900 }, "prefill")]);
now += 10_000;
remember([{ service: "n/a", pod: "picker", role: "picker", sample: { requests: 40, errors: 3 } }, engine("four", { requests: 999 }, "prefill")]);
assert.deepEqual(demand("n/a", begin, now), { rate: 3, requests: 30, errors: 2 });
assert.equal(pickers("n/a").length, 1);

// Quantiles: half of ten is the end of the first bucket; the last bucket has no end.
const close = (found, expected) => found.forEach((value, index) => assert.ok(Math.abs(value - expected[index]) < 1e-9, `${found} instead of ${expected}`));
close(firstToken(only("n/a", "one"), [0.25, 0.5, 0.75], begin, begin + 10_000), [0.05, 0.1, 0.15]);
close(firstToken(only("n/a", "one"), [0.99], begin, now), [0.2]);
assert.deepEqual(firstToken(only("n/a", "two"), [0.5], begin, now), [null]);

// Two hours of samples stay few, and sums over the last hour stay exact.
const [old] = only("n/a", "two");
for (let step = 1; step <= 3600; step += 1) {
  now += 2000;
  remember([engine("two", { requests: 7 + step })]);
}
assert.ok(old.points.length < 1000, `${old.points.length} points`);
const hour = grown([old], "requests", now - 3_600_000, now);
assert.ok(Math.abs(hour - 1800) <= 5, `${hour} requests`);
console.log("the numbers are right");
