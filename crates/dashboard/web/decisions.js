// The picker's recent decisions: the shares of replicas, and for each decision the results of every filter and scorer.

import { html, useState } from "/vendor/htm-preact.js";
import { age, counted, percent, shortened } from "/format.js";
import { useAsked } from "/tree.js";

const number = (value) => (value === null || value === undefined ? "" : Number(value).toFixed(3).replace(/\.?0+$/, ""));
const scorerName = ({ plugin }) => plugin.replace(/-scorer$/, "");
/// Differences of scores below this come from rounding.
const EQUAL = 0.0005;

/// Returns the name of an endpoint without its namespace: its pod and its rank.
const podOf = (endpoint) => endpoint.slice(endpoint.indexOf("/") + 1);

/// Returns a function that shortens names of endpoints. It removes the rank if no pod has several.
function naming(names) {
  const single = names.every((name) => name.endsWith("-rank-0"));
  const plain = (name) => (single ? name.replace(/-rank-0$/, "") : name);
  const short = shortened(names.map(plain));
  return (name) => short(plain(name));
}

/// Returns the primary profile of a record, which chose the destination.
const primary = ({ profiles }) => profiles.find((profile) => profile.primary) || profiles[0];

/// Returns the endpoint that a record picked, or null if the request was refused.
const picked = (record) => (primary(record) && primary(record).endpoints.find((endpoint) => endpoint.picked)) || null;

/// Returns in a sentence why an endpoint was not chosen.
function whyNot(endpoint, best, scorers) {
  const clamped = (value) => Math.min(1, Math.max(0, value || 0));
  const less = best.total - endpoint.total;
  if (Math.abs(less) < EQUAL) return "It scored the same; one of the best is chosen at random.";
  if (less < 0) return `It scored ${number(-less)} more, but this profile does not always choose the best.`;
  const behind = scorers
    .map((scorer, index) => ({ scorer, own: endpoint.scores[index], its: best.scores[index], lost: scorer.weight * (clamped(best.scores[index]) - clamped(endpoint.scores[index])) }))
    .filter(({ lost }) => lost > EQUAL)
    .sort((one, other) => other.lost - one.lost);
  const reasons = behind.map(({ scorer, own, its, lost }) => `${scorerName(scorer)} gave it ${number(own)} instead of ${number(its)} (−${number(lost)})`);
  const ahead = scorers.filter((scorer, index) => scorer.weight * (clamped(endpoint.scores[index]) - clamped(best.scores[index])) > EQUAL).map(scorerName);
  return `It scored ${number(less)} less: ${reasons.join(", ") || "the sum of its scores is lower"}${ahead.length > 0 ? `; ${ahead.join(" and ")} preferred it` : ""}.`;
}

function Profile({ profile, short }) {
  const best = profile.endpoints.find((endpoint) => endpoint.picked);
  const others = profile.endpoints.filter((endpoint) => !endpoint.picked);
  return html`
    <h2>Profile ${profile.name}${profile.primary ? "" : html` <span class="quiet">additional profile, which does not choose the destination of the request</span>`}</h2>
    ${profile.filters.length > 0 && html`<ul class="plain">
      ${profile.filters.map((filter) => html`<li>
        <code>${filter.plugin}</code> left ${counted(filter.left, "endpoint")}${filter.dropped.length > 0 ? `; dropped ${filter.dropped.map((one) => short(podOf(one))).join(", ")}` : ""}
      </li>`)}
    </ul>`}
    <div class="wide" tabindex="0" role="region" aria-label="Scores of profile ${profile.name}"><table>
      <thead><tr><th>Endpoint</th>
        ${profile.scorers.map((scorer) => html`<th class="number">${scorerName(scorer)}${"\u00a0×\u00a0"}${number(scorer.weight)}</th>`)}
        <th class="number">Total</th><th class="number">Queue</th><th class="number">Running</th><th class="number">KV</th>
      </tr></thead>
      <tbody>${profile.endpoints.map((endpoint) => html`<tr class=${endpoint.picked ? "picked" : ""}>
        <th scope="row" title=${endpoint.endpoint}>${endpoint.picked ? "→ " : ""}${short(podOf(endpoint.endpoint))}</th>
        ${endpoint.scores.map((score) => html`<td class="number">${number(score)}</td>`)}
        <td class="number"><b>${number(endpoint.total)}</b></td>
        <td class="number">${endpoint.waiting}</td><td class="number">${endpoint.running}</td>
        <td class="number">${percent(endpoint.kvUsage)}</td>
      </tr>`)}</tbody>
    </table></div>
    ${best && others.length > 0 && html`<details open=${others.length <= 4}><summary>Why not ${others.length === 1 ? "the other one" : "the others"}?</summary>
      <dl class="why">${others.map((endpoint) => html`<dt>${short(podOf(endpoint.endpoint))}</dt><dd>${whyNot(endpoint, best, profile.scorers)}</dd>`)}</dl>
    </details>`}
    ${profile.scored > profile.endpoints.length && html`<p class="quiet">${counted(profile.scored - profile.endpoints.length, "more endpoint")} scored less.</p>`}`;
}

function Record({ record, short }) {
  const { response, prefix } = record;
  const best = picked(record);
  return html`<div class="record">
    <dl>
      <dt>Request</dt><dd><code>${record.id}</code></dd>
      <dt>Model</dt><dd>${record.model}</dd>
      <dt>Decided in</dt><dd>${record.micros} µs, among ${counted(record.candidates, "endpoint")}</dd>
      ${record.destination && html`<dt>Went to</dt><dd>${best && html`${podOf(best.endpoint)} at `}<code>${record.destination.join(", ")}</code></dd>`}
      ${record.error && html`<dt>Refused</dt><dd class="bad">${record.error}</dd>`}
      ${prefix && html`<dt>Cached there</dt><dd>${prefix.matched} of ${counted(prefix.total, "block")} of the prompt${
        prefix.shared > 0 ? `; ${prefix.shared === prefix.matched ? "many prompts share all of them" : `many prompts share ${prefix.shared}`}, so the prefix score leaves ${prefix.shared === 1 ? "it" : "them"} out` : ""}</dd>`}
      ${response && html`<dt>Response</dt><dd>
        ${response.status !== undefined ? html`<span class=${response.status >= 400 ? "bad" : ""}>status ${response.status}</span>, ` : ""}first byte after ${
        response.firstByteMillis ?? "–"} ms, ${response.cancelled ? "cancelled" : response.status !== undefined ? "ended" : "complete"} after ${response.millis} ms${
        response.completionTokens !== undefined
          ? `; ${counted(response.promptTokens, "prompt token")} (${response.cachedTokens} cached), ${response.completionTokens} generated`
          : ""}</dd>`}
    </dl>
    ${record.profiles.map((profile) => html`<${Profile} key=${profile.name} profile=${profile} short=${short} />`)}
  </div>`;
}

/// How many of the decisions went to each pod. A click shows only these.
function Shares({ records, short, chosen, choose }) {
  const counts = new Map();
  for (const record of records) {
    const best = picked(record);
    const pod = best ? podOf(best.endpoint) : "";
    counts.set(pod, (counts.get(pod) || 0) + 1);
  }
  const rows = [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  return html`<ul class="shares" aria-label="Decisions by replica">
    ${rows.map(([pod, count]) => html`<li key=${pod}>
      <button aria-pressed=${chosen === pod ? "true" : "false"} title=${pod || null} onClick=${() => choose(chosen === pod ? null : pod)}>
        <span class="pod">${pod ? short(pod) : "refused"}</span>
        <meter class=${pod ? "" : "bad"} min="0" max=${records.length} value=${count} aria-hidden="true"></meter>
        <span class="number">${count} <span class="quiet">${percent(count / records.length)}</span></span>
      </button></li>`)}
  </ul>`;
}

export function Decisions({ service, query }) {
  const id = query.get("id");
  const { answer, problem } = useAsked("decisions", id ? { service, id } : { service }, id ? 0 : 3);
  const [open, setOpen] = useState(null);
  const [filter, setFilter] = useState("");
  const [pod, setPod] = useState(null);
  if (problem && !answer) return html`<p class="trouble">${problem}</p>`;
  if (!answer) return html`<p class="quiet">Loading…</p>`;
  const records = answer.decisions;
  // Ids may repeat, because clients may choose them.
  const key = (record) => `${record.id} ${record.time}`;
  const pods = [...new Set(records.flatMap(({ profiles }) => profiles.flatMap(({ endpoints }) => endpoints.map(({ endpoint }) => podOf(endpoint)))))];
  const short = naming(pods);
  const needle = filter.trim().toLowerCase();
  const found = records.filter((record) => {
    const best = picked(record);
    const target = best ? podOf(best.endpoint) : "";
    return (pod === null || target === pod) && `${record.id} ${record.model} ${target} ${(record.destination || []).join(" ")} ${record.error || ""}`.toLowerCase().includes(needle);
  });
  return html`
    ${answer.trouble.map((sentence) => html`<p class="trouble">${sentence}</p>`)}
    ${id && html`<p>Only request <code>${id}</code>. <a href="#/${service}/decisions">Show all</a></p>`}
    ${records.length === 0 && answer.trouble.length === 0 && html`<p class="quiet">${id ? "This request is too old, or another picker decided." : "No requests yet. Send one in the playground."}</p>`}
    ${!id && records.length > 0 && html`
      <${Shares} records=${records} short=${short} chosen=${pod} choose=${setPod} />
      <label for="find-decision" class="unseen">Filter decisions</label>
      <input id="find-decision" type="search" placeholder="Filter by request, model, replica or error" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      <p class="counts">${found.length === records.length ? `The newest ${counted(records.length, "decision")}` : `${found.length} of ${counted(records.length, "decision")}`}</p>`}
    <ul class="decisions">
      ${found.map((record) => {
        const shown = id || open === key(record);
        const best = picked(record);
        return html`<li key=${key(record)}>
          <button aria-expanded=${shown ? "true" : "false"} onClick=${() => setOpen(open === key(record) ? null : key(record))}>
            <span class="when">${age(record.time)} ago</span>
            <code>${record.id.slice(0, 8)}</code>
            <span class=${record.error ? "bad" : "target-pod"}>${record.error || (best ? `→ ${short(podOf(best.endpoint))}` : (record.destination || []).join(", "))}</span>
            ${record.prefix && html`<span class="quiet cached">${percent(record.prefix.ratio)} cached</span>`}
            ${record.response && html`<span class="quiet">${record.response.millis} ms</span>`}
          </button>
          ${shown && html`<${Record} record=${record} short=${short} />`}
        </li>`;
      })}
    </ul>`;
}
