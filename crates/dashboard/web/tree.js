// The tree of a service: conditions, workloads and pods with the causes of problems, the doctor's findings, and events.

import { html, useEffect, useState } from "/vendor/htm-preact.js";
import { json } from "/api.js";
import { age } from "/format.js";

/// The meanings of marks as words, because colour alone is not accessible.
export const WORDS = { good: "Ready", waiting: "Waiting", bad: "Broken" };

/// Returns the text of a line without the part that its mark already shows.
export const unmarked = ({ mark, text }) => (mark === "good" ? text.replace(/^Ready\s+/, "") : text);

export const Mark = ({ mark }) => html`<span class="mark ${mark}">${WORDS[mark]}</span>`;

/// Sends a request when the view opens, every `seconds` if given, and whenever `version` changes.
export function useAsked(path, parameters, seconds, version) {
  const [state, setState] = useState({});
  const key = JSON.stringify(parameters);
  useEffect(() => {
    let open = true;
    const ask = async () => {
      if (document.hidden) return;
      try {
        const answer = await json(path, parameters);
        if (open) setState({ answer });
      } catch (error) {
        if (open) setState((before) => ({ ...before, problem: error.message }));
      }
    };
    ask();
    const timer = seconds && setInterval(ask, seconds * 1000);
    return () => {
      open = false;
      clearInterval(timer);
    };
  }, [path, key, seconds, version]);
  return state;
}

/// The doctor's findings. They change only with the tree, so the doctor runs only then.
function Findings({ service, tree }) {
  const version = tree.lines.map((line) => `${line.subject} ${line.mark}`).join("\n");
  const { answer, problem } = useAsked("findings", { service }, 0, version);
  if (problem) return html`<p class="trouble">Cannot run the doctor: ${problem}</p>`;
  if (!answer) return tree.lines.every((line) => line.mark === "good") ? null : html`<p class="quiet">The doctor is looking for the cause…</p>`;
  if (answer.findings.length === 0) return null;
  return html`<h2>Why</h2>
    <ul class="findings">
      ${answer.findings.map((finding) => html`<li>
        <b>${finding.object}</b>: ${finding.cause}
        ${finding.chain.length > 0 && html`<div class="quiet">through ${finding.chain.join(" → ")}</div>`}
        <div><b>What to do:</b> ${finding.fix}</div>
      </li>`)}
    </ul>`;
}

/// Reasons of conditions that are true although somebody should act.
const ACT = ["SharedPickerFailed", "SharedPickerLimited"];

/// Returns 0 for a bad condition, 1 for an unknown one, and 2 for a good one.
function rank({ type, status, reason }) {
  const bad = type === "GroupDegraded" || ACT.includes(reason) ? "True" : "False";
  return status === bad ? 0 : status === "Unknown" ? 1 : 2;
}

export function Tree({ service, tree, known }) {
  const { answer, problem } = useAsked("events", { service }, 5);
  if (!known) return html`<p class="quiet">Loading…</p>`;
  if (!tree) return html`<p class="trouble">LLMInferenceService ${service} not found.</p>`;
  const all = (tree.object.status && tree.object.status.conditions) || [];
  // Bad conditions come first.
  const conditions = [...all].sort((one, other) => rank(one) - rank(other));
  return html`
    <ul class="tree">
      ${tree.lines.map((line) => html`<li key=${line.subject} class="depth${line.depth}">
        <${Mark} mark=${line.mark} />
        <span><b>${line.subject.startsWith(`${service} `) ? line.subject.slice(service.length + 1) : line.subject}</b> ${unmarked(line)} <span class="quiet">${line.took ? `took ${line.took}` : age(line.since)}</span></span>
      </li>`)}
    </ul>
    <${Findings} service=${service} tree=${tree} />
    <h2>Conditions</h2>
    <div class="wide" tabindex="0" role="region" aria-label="Conditions"><table>
      <thead><tr><th>Condition</th><th>Status</th><th>Reason</th><th>Message</th><th>Since</th></tr></thead>
      <tbody>${conditions.map((condition) => html`<tr key=${condition.type}>
        <th scope="row">${condition.type}</th>
        <td class=${rank(condition) === 0 ? "bad" : ""}>${condition.status}</td>
        <td>${condition.reason || ""}</td>
        <td class="text">${condition.message || ""}</td>
        <td>${age(condition.lastTransitionTime)}</td>
      </tr>`)}</tbody>
    </table></div>
    <h2>Events</h2>
    ${problem && html`<p class="trouble">${problem}</p>`}
    ${answer && answer.events.length === 0 && html`<p class="quiet">No events.</p>`}
    ${answer && answer.events.length > 0 && html`<div class="wide" tabindex="0" role="region" aria-label="Events"><table>
      <thead><tr><th>Age</th><th>Type</th><th>Reason</th><th>Object</th><th>Message</th></tr></thead>
      <tbody>${answer.events.map((event) => html`<tr>
        <td>${age(event.time)}${event.count > 1 ? ` ×${event.count}` : ""}</td>
        <td class=${event.type === "Warning" ? "bad" : ""}>${event.type}</td>
        <td>${event.reason}</td>
        <td>${event.object}</td>
        <td class="text">${event.message}</td>
      </tr>`)}</tbody>
    </table></div>`}`;
}
