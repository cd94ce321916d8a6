// A chat with the service. Each answer links to the decision that sent it to a replica.

import { html, useRef, useState } from "/vendor/htm-preact.js";
import { events, send } from "/api.js";

/// The messages of this tab, by service, so that a change of the view does not end the conversation.
const kept = new Map();

export function Playground({ service }) {
  const [messages, setMessages] = useState(kept.get(service) || []);
  const [busy, setBusy] = useState(false);
  const ask = useRef(null);
  const running = useRef(null);
  const show = (all) => {
    kept.set(service, all);
    setMessages([...all]);
  };

  const submit = async (event) => {
    event.preventDefault();
    const content = ask.current.value.trim();
    if (!content || busy) return;
    ask.current.value = "";
    const answer = { role: "assistant", content: "" };
    const before = [...messages, { role: "user", content }];
    const all = [...before, answer];
    show(all);
    setBusy(true);
    running.current = new AbortController();
    const start = performance.now();
    const since = () => Math.round(performance.now() - start);
    try {
      const body = JSON.stringify({
        messages: before.filter((one) => one.content).map(({ role, content: said }) => ({ role, content: said })),
        stream_options: { include_usage: true },
      });
      const response = await send("POST", "chat", { service }, body, running.current.signal);
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
        show(all);
      });
    } catch (error) {
      answer.problem = error.name === "AbortError" ? "Stopped." : error.message;
    }
    answer.millis = since();
    setBusy(false);
    show(all);
  };
  const typed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };

  return html`
    <ol class="chat" aria-live="polite" aria-busy=${busy ? "true" : "false"}>
      ${messages.map((message) => html`<li class=${message.role}>
        <b>${message.role === "user" ? "You" : "Model"}</b>
        <div class="said">${message.content}${!message.content && !message.problem && message.role === "assistant" ? "…" : ""}</div>
        ${message.problem && html`<p class="trouble">${message.problem}</p>`}
        ${message.millis !== undefined && html`<p class="quiet">
          ${message.first !== undefined && `first token after ${message.first} ms, `}complete after ${message.millis} ms
          ${message.tokens !== undefined && message.first !== undefined && message.millis > message.first
            && `, ${Math.round((message.tokens / (message.millis - message.first)) * 1000)} tokens/s`}
          ${message.id && html` · <a href="#/${service}/decisions?id=${encodeURIComponent(message.id)}">why this replica</a>`}
        </p>`}
      </li>`)}
    </ol>
    <form class="ask" onSubmit=${submit}>
      <label for="ask">Message (Enter sends, Shift-Enter starts a new line)</label>
      <textarea id="ask" rows="3" ref=${ask} onKeyDown=${typed}></textarea>
      <div class="buttons">
        <button type="submit" disabled=${busy}>Send</button>
        ${busy && html`<button type="button" onClick=${() => running.current.abort()}>Stop</button>`}
        ${messages.length > 0 && !busy && html`<button type="button" onClick=${() => show([])}>Clear</button>`}
      </div>
    </form>`;
}
