// The replicas of a service as graphs over time.

import { html } from "/vendor/htm-preact.js";
import { Chart, spanFrom } from "/charts.js";

/// The number of points that are kept per replica: five minutes.
const KEPT = 150;
/// The number of replicas for which graphs are drawn. The table has all replicas.
const DRAWN = 50;
/// Points over time, by service and pod.
const history = new Map();

/// Returns the change of one counter as a share of the change of another, or null if nothing happened or the process has
/// restarted.
function share(now, before, part, whole) {
  const change = now[whole] - before[whole];
  return change > 0 && now[part] >= before[part] ? (now[part] - before[part]) / change : null;
}

function point(at, sample, last) {
  const same = last && sample.tokens >= last.sample.tokens;
  const seconds = last ? (at - last.at) / 1000 : 0;
  return {
    at,
    sample,
    queue: sample.waiting,
    running: sample.running,
    kv: sample.kvUsage * 100,
    rate: same && seconds > 0 ? (sample.tokens - last.sample.tokens) / seconds : null,
    hits: last ? scaled(share(sample, last.sample, "hits", "queries"), 100) : null,
    ttft: last ? scaled(share(sample, last.sample, "firstTokenSeconds", "firstTokens"), 1000) : null,
  };
}

const scaled = (value, factor) => (value === null ? null : value * factor);

/// Adds a sample of a service's replicas to the history.
export function remember(service, replicas) {
  const before = history.get(service) || new Map();
  const after = new Map();
  for (const { pod, sample } of replicas) {
    const points = before.get(pod) || [];
    if (sample) points.push(point(Date.now(), sample, points[points.length - 1]));
    after.set(pod, points.slice(-KEPT));
  }
  history.clear();
  history.set(service, after);
}

const GRAPHS = [
  ["queue", "Queue", "requests"],
  ["running", "Running", "requests"],
  ["kv", "KV cache in use", "%"],
  ["hits", "Prefix cache hits", "%"],
  ["rate", "Generated", "tokens/s"],
  ["ttft", "Time to first token", "ms"],
];

export function Replicas({ service, replicas }) {
  if (!replicas) return html`<p class="quiet">Reading the metrics of the replicas…</p>`;
  const points = history.get(service) || new Map();
  const last = (pod) => (points.get(pod) || [])[(points.get(pod) || []).length - 1];
  // All graphs show the same time span.
  const span = spanFrom(Math.min(Date.now(), ...[...points.values()].filter((one) => one.length > 0).map((one) => one[0].at)));
  const shown = (value) => (value === null || value === undefined ? "–" : String(Math.round(value * 10) / 10));
  return html`
    ${replicas.trouble && html`<p class="trouble">${replicas.trouble}</p>`}
    ${replicas.replicas.length === 0 && html`<p class="quiet">There are no replicas.</p>`}
    <div class="charts">
      ${GRAPHS.map(([field, title, unit]) => html`<${Chart} key=${field} title=${title} unit=${unit} span=${span}
        series=${replicas.replicas.slice(0, DRAWN).map(({ pod }) => ({
          name: pod,
          points: (points.get(pod) || []).filter((one) => one[field] !== null).map((one) => [one.at, one[field]]),
        }))} />`)}
    </div>
    <div class="wide" tabindex="0" role="region" aria-label="Replicas"><table>
      <thead><tr><th>Replica</th><th>Role</th>${GRAPHS.map(([, title, unit]) => html`<th class="number">${title} (${unit})</th>`)}</tr></thead>
      <tbody>${replicas.replicas.map(({ pod, role, trouble }, index) => html`<tr key=${pod}>
        <th scope="row"><span class="key line${index % 8}"></span> ${pod}</th>
        <td>${role}</td>
        ${trouble
          ? html`<td class="bad" colspan=${GRAPHS.length}>${trouble}</td>`
          : GRAPHS.map(([field]) => html`<td class="number">${shown(last(pod) && last(pod)[field])}</td>`)}
      </tr>`)}</tbody>
    </table></div>
    <p class="quiet">Updated every two seconds while this page is visible. The graphs show the last five minutes.</p>`;
}
