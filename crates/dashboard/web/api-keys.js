// The API keys of the gateway: what each may use, and what it has used.

import { html } from "/vendor/htm-preact.js";
import { useAsked } from "/tree.js";

const SECONDS = 5;

const of = (used, limit) => (limit === null ? used : `${used} of ${limit}`);

export function ApiKeys() {
  const { answer } = useAsked("keys", {}, SECONDS);
  if (!answer || answer.keys.length === 0) return null;
  return html`<section aria-labelledby="keys">
    <h2 id="keys">API keys</h2>
    <div class="wide" tabindex="0" role="region" aria-label="API keys"><table>
      <thead><tr>
        <th scope="col">Key</th><th scope="col">Models</th><th scope="col">Running</th>
        <th scope="col">Requests this minute</th><th scope="col">today</th>
        <th scope="col">Tokens this minute</th><th scope="col">today</th><th scope="col">Refused</th>
      </tr></thead>
      <tbody>
        ${answer.keys.map(({ namespace, name, problem, models, limits, usage }) => html`<tr key=${`${namespace}/${name}`}>
          <th scope="row">${namespace}/${name}</th>
          ${problem
            ? html`<td colspan="7" class="trouble">Refused: ${problem}</td>`
            : html`<td>${models.join(", ") || "all"}</td>
              <td>${of(usage.concurrentRequests, limits.concurrentRequests)}</td>
              <td>${of(usage.requestsThisMinute, limits.requestsPerMinute)}</td>
              <td>${of(usage.requestsToday, limits.requestsPerDay)}</td>
              <td>${of(usage.tokensThisMinute, limits.tokensPerMinute)}</td>
              <td>${of(usage.tokensToday, limits.tokensPerDay)}</td>
              <td>${usage.refused}</td>`}
        </tr>`)}
      </tbody>
    </table></div>
  </section>`;
}
