// What a service is and how it does, at one glance.

import { html } from "/vendor/htm-preact.js";
import { amount, counted, duration, gpuHours, perSecond } from "/format.js";
import { decoders, demand, firstToken, isKnown, NOW, rate } from "/traffic.js";
import { Way } from "/way.js";

/// A number with its name.
export const Fact = ({ name, tone, children, hint }) => html`<div class="fact" title=${hint || null}><dt>${name}</dt><dd class=${tone || ""}>${children}</dd></div>`;

/// The numbers of a service without samples. There may be a thousand of them.
const UNKNOWN = { rate: null, requests: null, errors: null, half: null, most: null, tokens: null };

/// Returns the numbers of a service in the last minute.
export function numbers(service) {
  if (!isKnown(service)) return UNKNOWN;
  const end = Date.now();
  const [half, most] = firstToken(decoders(service), [0.5, 0.95], end - NOW, end);
  return { ...demand(service, end - NOW, end), half, most, tokens: rate(decoders(service), "tokens", end - NOW, end) };
}

export const errorTone = (errors) => (errors > 0 ? "bad" : "");

export function Overview({ service, head, tree, known, replicas }) {
  if (!known) return html`<p class="quiet">Loading…</p>`;
  if (!tree || !head) return html`<p class="trouble">LLMInferenceService ${service} not found.</p>`;
  const { rate: requests, errors, half, most, tokens } = numbers(service);
  const [model, ...adapters] = head.models;
  return html`
    ${head.mark !== "good" && html`<p class=${head.mark === "bad" ? "trouble" : "note"}>${head.text} <a href="#/${service}/tree">See the tree</a></p>`}
    <dl class="facts">
      <${Fact} name="Model">${model}${adapters.length > 0 && html`<small title=${adapters.join(", ")}>${counted(adapters.length, "adapter")}: ${adapters.join(", ")}</small>`}<//>
      <${Fact} name="Engine">${head.engine || "–"}<//>
      <${Fact} name="Replicas" tone=${head.ready < head.replicas ? "waiting" : ""}>${head.ready} of ${head.replicas} ready<//>
      ${head.gpus && html`<${Fact} name="GPUs" hint="of the running pods, since they started">${head.gpus.count} <small>${counted(amount(gpuHours(head.gpus)), "GPU-hour")}</small><//>`}
      <${Fact} name="Requests">${perSecond(requests)}<//>
      <${Fact} name="Time to first token" hint="measured by the engines that decode">${half === null ? "–" : html`${duration(half)} <small>P95 ${duration(most)}</small>`}<//>
      <${Fact} name="Generated">${perSecond(tokens, "tokens")}<//>
      <${Fact} name="Errors" tone=${errorTone(errors)}>${amount(errors && Math.round(errors))} <small>in a minute</small><//>
    </dl>
    <h2>The way of a request</h2>
    <${Way} service=${service} tree=${tree} replicas=${replicas} />
    <p class="quiet">Numbers of the last minute, read every two seconds. Thicker lines carry more requests; the bar in a replica is its KV cache, the time is its P50 to the first token.</p>`;
}
