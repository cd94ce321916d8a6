// A chat with one service, or the same prompts to two side by side. Each answer links to the decision that sent it to a
// replica.

import { html, useRef, useState } from "/vendor/htm-preact.js";
import { events, send } from "/api.js";
import { duration } from "/format.js";

/// The conversation and the settings of this tab, by service, so that a change of the view does not end the conversation.
const kept = new Map();

function fresh(service, head) {
  return { sides: [{ service, model: head ? head.models[0] : "", messages: [] }], system: "", temperature: "", tokens: "", running: null };
}

/// Sends a conversation, and writes the response into `answer`. Calls `show` after each change.
async function ask({ service, model, messages }, { system, temperature, tokens }, answer, signal, show) {
  const start = performance.now();
  const since = () => (performance.now() - start) / 1000;
  try {
    const said = messages.filter((one) => one.content && one !== answer).map(({ role, content }) => ({ role, content }));
    const body = {
      ...(model ? { model } : {}),
      messages: system.trim() ? [{ role: "system", content: system }, ...said] : said,
      ...(temperature === "" ? {} : { temperature: Number(temperature) }),
      ...(tokens === "" ? {} : { max_tokens: Number(tokens) }),
      stream_options: { include_usage: true },
    };
    const response = await send("POST", "chat", { service }, JSON.stringify(body), signal);
    answer.id = response.headers.get("x-request-id");
    await events(response, (_, data) => {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message || "the service failed in the middle of its response");
      const delta = chunk.choices && chunk.choices[0] && chunk.choices[0].delta;
      const piece = delta && (delta.content || delta.reasoning_content);
      if (piece) {
        answer.first ??= since();
        answer.content += piece;
      }
      if (chunk.usage) answer.tokens = chunk.usage.completion_tokens;
      show();
    });
  } catch (error) {
    answer.problem = error.name === "AbortError" ? "Stopped." : error.message;
  }
  answer.seconds = since();
  show();
}

/// Returns the speed of an answer in tokens per second after the first token.
const speed = ({ tokens, seconds, first }) => (tokens > 1 && seconds > first ? Math.round((tokens - 1) / (seconds - first)) : null);

function Message({ message, service }) {
  const { role, content, problem, seconds, first, tokens, id } = message;
  return html`<li class=${role}>
    <b>${role === "user" ? "You" : "Model"}</b>
    ${(content || !problem) && html`<div class="said">${content || "…"}</div>`}
    ${problem && html`<p class="trouble">${problem}</p>`}
    ${seconds !== undefined && html`<p class="quiet">
      ${first !== undefined && html`first token after ${duration(first)}, `}${first !== undefined ? "" : "ended after "}${first !== undefined ? `complete after ${duration(seconds)}` : duration(seconds)}
      ${tokens !== undefined && `, ${tokens} token${tokens === 1 ? "" : "s"}`}${speed(message) !== null && `, ${speed(message)} tokens/s`}
      ${id && html` · <a href="#/${service}/decisions?id=${encodeURIComponent(id)}">why this replica</a>`}
    </p>`}
  </li>`;
}

/// Chooses a service and one of its models.
function Target({ side, index, services, change, remove }) {
  const names = [...services.keys()].sort();
  const models = (services.get(side.service) || { models: [] }).models;
  return html`<div class="target">
    ${index > 0 && html`<label>Service <select value=${side.service} onChange=${(event) => change({ service: event.target.value, model: services.get(event.target.value).models[0] })}>
      ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select></label>`}
    <label>Model <select value=${side.model} onChange=${(event) => change({ model: event.target.value })}>
      ${models.map((model, place) => html`<option key=${model} value=${model}>${model}${place > 0 ? " (adapter)" : ""}</option>`)}
    </select></label>
    ${index > 0 && html`<button type="button" onClick=${remove}>Remove</button>`}
  </div>`;
}

export function Playground({ service, head, services }) {
  const [, redraw] = useState(0);
  const prompt = useRef(null);
  if (!kept.has(service)) kept.set(service, fresh(service, head));
  const state = kept.get(service);
  if (!state.sides[0].model && head) [state.sides[0].model] = head.models;
  // An answer goes on while another view is open, and is drawn by the view that is open then.
  state.show = () => redraw((count) => count + 1);
  const show = () => state.show();
  const busy = state.running !== null;
  const change = (what) => {
    Object.assign(state, what);
    show();
  };

  const submit = async (event) => {
    event.preventDefault();
    const content = prompt.current.value.trim();
    if (!content || busy) return;
    prompt.current.value = "";
    state.running = new AbortController();
    const { signal } = state.running;
    await Promise.all(state.sides.map((side) => {
      const answer = { role: "assistant", content: "" };
      side.messages.push({ role: "user", content }, answer);
      return ask(side, state, answer, signal, show);
    }));
    state.running = null;
    show();
  };
  const typed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const compare = () => {
    const ready = [...services.values()].filter(({ mark }) => mark === "good").map((one) => one.service).sort();
    const other = ready.find((name) => name !== service) || service;
    state.sides.push({ service: other, model: services.get(other).models[0], messages: [] });
    show();
  };
  const told = state.sides.some(({ messages }) => messages.length > 0);

  return html`
    <div class="sides ${state.sides.length > 1 ? "two" : ""}">
      ${state.sides.map((side, index) => html`<section key=${index} aria-label="Chat ${index + 1}: ${side.service}">
        ${state.sides.length > 1 && html`<h2>${side.service}</h2>`}
        <${Target} side=${side} index=${index} services=${services}
          change=${(what) => { Object.assign(side, what); show(); }} remove=${() => { state.sides.splice(index, 1); show(); }} />
        <ol class="chat" aria-live="polite" aria-busy=${busy ? "true" : "false"}>
          ${side.messages.map((message, place) => html`<${Message} key=${place} message=${{ ...message }} service=${side.service} />`)}
        </ol>
      </section>`)}
    </div>
    <form class="ask" onSubmit=${submit}>
      <details open=${state.system !== "" || state.temperature !== "" || state.tokens !== ""}><summary>Settings</summary>
        <label for="system">System prompt</label>
        <textarea id="system" rows="2" value=${state.system} onInput=${(event) => change({ system: event.target.value })}></textarea>
        <div class="settings">
          <label>Temperature <input type="number" min="0" max="2" step="0.1" placeholder="default" value=${state.temperature} onInput=${(event) => change({ temperature: event.target.value })} /></label>
          <label>Most tokens <input type="number" min="1" step="1" placeholder="default" value=${state.tokens} onInput=${(event) => change({ tokens: event.target.value })} /></label>
        </div>
      </details>
      <label for="ask">Message (Enter sends, Shift-Enter starts a new line)</label>
      <textarea id="ask" rows="3" ref=${prompt} onKeyDown=${typed}></textarea>
      <div class="buttons">
        <button type="submit" class="main" disabled=${busy}>Send</button>
        ${busy && html`<button type="button" onClick=${() => state.running.abort()}>Stop</button>`}
        ${told && !busy && html`<button type="button" onClick=${() => { for (const side of state.sides) side.messages = []; show(); }}>Clear</button>`}
        ${state.sides.length === 1 && !busy && html`<button type="button" onClick=${compare}>Compare with another</button>`}
      </div>
    </form>`;
}
