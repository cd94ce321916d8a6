// The picker's recent decisions, with the results of every filter and scorer.

import { html, useState } from "/vendor/htm-preact.js";
import { age, counted, useAsked } from "/tree.js";

const number = (value) => (value === null || value === undefined ? "" : Number(value).toFixed(3).replace(/\.?0+$/, ""));
const percent = (value) => `${Math.round(value * 100)} %`;

/// Returns a function that removes the common parts from the names of endpoints.
function shortened(endpoints, namespace) {
  const single = endpoints.every(({ endpoint }) => endpoint.endsWith("-rank-0"));
  return (name) => {
    const inner = name.startsWith(`${namespace}/`) ? name.slice(namespace.length + 1) : name;
    return single ? inner.replace(/-rank-0$/, "") : inner;
  };
}

export function Record({ record, namespace }) {
  const { response, prefix } = record;
  return html`<div class="record">
    <dl>
      <dt>Request</dt><dd><code>${record.id}</code></dd>
      <dt>Model</dt><dd>${record.model}</dd>
      <dt>Decided in</dt><dd>${record.micros} µs, among ${counted(record.candidates, "endpoint")}</dd>
      ${record.destination && html`<dt>Went to</dt><dd><code>${record.destination.join(", ")}</code></dd>`}
      ${record.error && html`<dt>Refused</dt><dd class="bad">${record.error}</dd>`}
      ${prefix && html`<dt>Cached at this replica</dt><dd>${prefix.matched} of ${counted(prefix.total, "block")} of the prompt (${percent(prefix.ratio)})</dd>`}
      ${response && html`<dt>Response</dt><dd>
        first byte after ${response.firstByteMillis ?? "–"} ms, complete after ${response.millis} ms${
        response.completionTokens !== undefined
          ? `; ${response.promptTokens} prompt tokens (${response.cachedTokens} cached), ${response.completionTokens} generated`
          : ""}</dd>`}
    </dl>
    ${record.profiles.map((profile) => html`
      <h2>Profile ${profile.name}${profile.primary ? "" : html` <span class="quiet">additional profile, which does not choose the destination of the request</span>`}</h2>
      ${profile.filters.length > 0 && html`<ul class="plain">
        ${profile.filters.map((filter) => html`<li>
          <code>${filter.plugin}</code> left ${filter.left}${filter.dropped.length > 0 ? `; dropped ${filter.dropped.join(", ")}` : ""}
        </li>`)}
      </ul>`}
      <div class="wide" tabindex="0" role="region" aria-label="Scores of profile ${profile.name}"><table>
        <thead><tr><th>Endpoint</th>
          ${profile.scorers.map((scorer) => html`<th class="number">${scorer.plugin.replace(/-scorer$/, "")} × ${number(scorer.weight)}</th>`)}
          <th class="number">Total</th><th class="number">Queue</th><th class="number">Running</th><th class="number">KV</th>
        </tr></thead>
        <tbody>${profile.endpoints.map((endpoint) => html`<tr class=${endpoint.picked ? "picked" : ""}>
          <th scope="row">${shortened(profile.endpoints, namespace)(endpoint.endpoint)}${endpoint.picked ? " ← picked" : ""}</th>
          ${endpoint.scores.map((score) => html`<td class="number">${number(score)}</td>`)}
          <td class="number"><b>${number(endpoint.total)}</b></td>
          <td class="number">${endpoint.waiting}</td><td class="number">${endpoint.running}</td>
          <td class="number">${percent(endpoint.kvUsage)}</td>
        </tr>`)}</tbody>
      </table></div>
      ${profile.scored > profile.endpoints.length && html`<p class="quiet">${profile.scored - profile.endpoints.length} more endpoints scored less.</p>`}
    `)}
  </div>`;
}

export function Decisions({ service, query }) {
  const id = query.get("id");
  const { answer, problem } = useAsked("decisions", id ? { service, id } : { service }, 2);
  const [open, setOpen] = useState(null);
  if (problem && !answer) return html`<p class="trouble">${problem}</p>`;
  if (!answer) return html`<p class="quiet">Loading…</p>`;
  const { decisions, trouble } = answer;
  const key = (record) => `${record.time} ${record.id}`;
  return html`
    ${id && html`<p>Only request <code>${id}</code>. <a href="#/${service}/decisions">Show all</a></p>`}
    ${trouble.map((sentence) => html`<p class="trouble">${sentence}</p>`)}
    ${decisions.length === 0 && trouble.length === 0 && html`<p class="quiet">No decisions yet. Send a request in the playground.</p>`}
    <ul class="decisions">
      ${decisions.map((record) => {
        const shown = id !== null || open === key(record);
        return html`<li key=${key(record)}>
          <button aria-expanded=${shown ? "true" : "false"} onClick=${() => setOpen(open === key(record) ? null : key(record))}>
            <span>${age(record.time)} ago</span>
            <code>${record.id.slice(0, 8)}</code>
            <span>${record.error || (record.destination || []).join(", ")}</span>
            ${record.prefix && html`<span class="quiet">${percent(record.prefix.ratio)} cached</span>`}
            ${record.response && html`<span class="quiet">${record.response.millis} ms</span>`}
          </button>
          ${shown && html`<${Record} record=${record} namespace=${service.split("/")[0]} />`}
        </li>`;
      })}
    </ul>`;
}
