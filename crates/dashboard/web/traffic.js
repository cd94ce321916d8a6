// The metrics of pods over time, for as long as the page is open, and what can be computed from them.

/// The oldest points that are kept. Points older than `FINE_AGE` are kept one in `COARSE_INTERVAL`. In milliseconds.
const MAX_AGE = 62 * 60_000;
const FINE_AGE = 6 * 60_000;
const COARSE_INTERVAL = 10_000;
/// Counters of samples.
const COUNTERS = ["requests", "errors", "queries", "hits", "promptTokens", "tokens", "pickSeconds", "picks"];
/// The span of numbers that say how things are now, in milliseconds.
export const NOW = 60_000;

/// Points by service and pod. A point has the sample, and the sums of all increases of counters until then, which unlike the
/// counters never fall.
const history = new Map();

const increase = (now, before) => (now >= before ? now - before : now);

function summed(sample, last) {
  const sums = {};
  for (const name of COUNTERS) sums[name] = last.sums[name] + increase(sample[name] || 0, last.sample[name] || 0);
  const before = new Map((last.sample.firstTokenBuckets || []).map(([lower, , count]) => [lower, count]));
  const restarted = (sample.firstTokens || 0) < (last.sample.firstTokens || 0);
  const buckets = new Map(last.buckets);
  for (const [lower, upper, count] of sample.firstTokenBuckets || []) {
    const more = restarted ? count : count - (before.get(lower) || 0);
    if (more > 0) buckets.set(lower, [upper, (buckets.get(lower) ? buckets.get(lower)[1] : 0) + more]);
  }
  return { sums, buckets };
}

/// Keeps these samples.
export function remember(replicas) {
  const at = Date.now();
  for (const { service, pod, role, sample } of replicas) {
    if (!sample) continue;
    if (!history.has(service)) history.set(service, new Map());
    const pods = history.get(service);
    if (!pods.has(pod)) pods.set(pod, { pod, role, points: [], begin: at });
    const { points } = pods.get(pod);
    const last = points[points.length - 1];
    const none = { sums: Object.fromEntries(COUNTERS.map((name) => [name, 0])), buckets: new Map() };
    points.push({ at, sample, ...(last ? summed(sample, last) : none) });
    if (points.length % 64 === 0) thin(pods.get(pod), at);
  }
}

function thin(series, now) {
  let kept = 0;
  series.points = series.points.filter(({ at }) => {
    const keep = now - at < FINE_AGE || (now - at < MAX_AGE && at - kept >= COARSE_INTERVAL);
    if (keep) kept = at;
    return keep;
  });
}

/// Whether there are samples of a service.
export const isKnown = (service) => history.has(service);
const of = (service) => [...(history.get(service) || new Map()).values()];
export const pickers = (service) => of(service).filter(({ role }) => role === "picker");
export const decoders = (service) => of(service).filter(({ role }) => role === "decode");
export const engines = (service) => of(service).filter(({ role }) => role !== "picker");
export const only = (service, pod) => of(service).filter((one) => one.pod === pod);

/// Returns when the first sample of a service was kept.
export const begun = (service) => Math.min(...of(service).map(({ begin }) => begin));

/// Returns the last point not after `time`, or else the first one. Without samples in between, counters have not changed.
function pointAt({ points }, time) {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (points[middle].at <= time) low = middle;
    else high = middle - 1;
  }
  return points[low];
}

/// Returns how much a counter of these pods has grown between two times.
export function grown(pods, counter, from, to) {
  return pods.reduce((sum, pod) => sum + pointAt(pod, to).sums[counter] - pointAt(pod, from).sums[counter], 0);
}

/// Returns how much a counter has grown per second, or null if the time is too short to tell.
export function rate(pods, counter, from, to) {
  const begin = Math.max(from, Math.min(...pods.map((pod) => pod.begin)));
  return to - begin >= 1900 ? grown(pods, counter, from, to) / ((to - begin) / 1000) : null;
}

/// Returns the share of one counter's growth in another's, or null if nothing has grown.
export function share(pods, part, whole, from, to) {
  const all = grown(pods, whole, from, to);
  return all > 0 ? grown(pods, part, from, to) / all : null;
}

/// Returns quantiles of the time to the first token in seconds, interpolated in their buckets as Prometheus does, or null
/// without requests.
export function firstToken(pods, quantiles, from, to) {
  const counts = new Map();
  for (const pod of pods) {
    const before = pointAt(pod, from).buckets;
    for (const [lower, [upper, count]] of pointAt(pod, to).buckets) {
      const more = count - (before.get(lower) ? before.get(lower)[1] : 0);
      if (more > 0) counts.set(lower, [upper, (counts.get(lower) ? counts.get(lower)[1] : 0) + more]);
    }
  }
  const buckets = [...counts].map(([lower, [upper, count]]) => [lower || 0, upper, count]).sort((one, other) => one[0] - other[0]);
  const total = buckets.reduce((sum, [, , count]) => sum + count, 0);
  if (total === 0) return quantiles.map(() => null);
  return quantiles.map((quantile) => {
    let rest = quantile * total;
    for (const [lower, upper, count] of buckets) {
      // The last bucket has no upper bound.
      if (rest <= count) return upper === null ? lower : lower + ((upper - lower) * rest) / count;
      rest -= count;
    }
    return buckets[buckets.length - 1][1] || buckets[buckets.length - 1][0];
  });
}

/// Returns a gauge of each of these pods at a time.
export const gauges = (pods, gauge, time) => pods.filter(({ begin }) => begin <= time).map((pod) => pointAt(pod, time).sample[gauge] || 0);

/// Returns requests and errors of a service. The picker counts both if it can be read, because it also sees refused requests.
/// Otherwise the engines do.
export function demand(service, from, to) {
  const counters = pickers(service).length > 0 ? pickers(service) : decoders(service);
  if (counters.length === 0) return { rate: null, requests: null, errors: null };
  return {
    rate: rate(counters, "requests", from, to),
    requests: grown(counters, "requests", from, to),
    errors: grown(counters, "errors", from, to),
  };
}

/// Drops the pods that no longer exist, once they say nothing about the kept time.
export function forget(service, replicas) {
  const pods = history.get(service);
  const exist = new Set(replicas.map(({ pod }) => pod));
  for (const [pod, { points }] of pods || []) {
    if (!exist.has(pod) && Date.now() - points[points.length - 1].at > MAX_AGE) pods.delete(pod);
  }
}
