// The fields of a service, with the layer that set each. A click on a field shows its explanation.

import { html, useState } from "/vendor/htm-preact.js";
import { json } from "/api.js";
import { counted } from "/format.js";
import { useAsked } from "/tree.js";

/// The number of fields that are drawn per layer. The box above explains any other field.
const DRAWN = 300;

export function Fields({ service }) {
  const { answer, problem } = useAsked("explain", { service }, 0);
  const [path, setPath] = useState("");
  const [said, setSaid] = useState(null);
  const explain = async (asked) => {
    setPath(asked);
    setSaid({ path: asked, text: "…" });
    try {
      setSaid({ path: asked, text: (await json("explain", { service, path: asked })).text });
    } catch (error) {
      setSaid({ path: asked, problem: error.message });
    }
  };
  const submit = (event) => {
    event.preventDefault();
    if (path.trim()) explain(path.trim());
  };
  if (problem && !answer) return html`<p class="trouble">${problem}</p>`;
  if (!answer) return html`<p class="quiet">Composing…</p>`;
  const layers = (answer.answer.layers || []).map(({ kind, config, because, sets }) => ({
    name: config ? `${kind} ${config}` : kind,
    because,
    sets,
  }));
  return html`
    <form class="ask" onSubmit=${submit}>
      <label for="path">A field of the service, or of an object that the controller creates for it (deployment.spec.replicas)</label>
      <div class="buttons">
        <input id="path" value=${path} onInput=${(event) => setPath(event.target.value)} placeholder="spec.replicas" />
        <button type="submit">Explain</button>
      </div>
    </form>
    <div aria-live="polite">
      ${said && html`<h2>${said.path}</h2>`}
      ${said && said.problem && html`<p class="trouble">${said.problem}</p>`}
      ${said && said.text && html`<pre tabindex="0" class="said" aria-label="Explanation">${said.text}</pre>`}
    </div>
    ${layers.map((layer) => html`<details>
      <summary><b>${layer.name}</b> <span class="quiet">sets ${counted(layer.sets.length, "field")}, because ${layer.because}</span></summary>
      <ul class="plain fields">
        ${layer.sets.slice(0, DRAWN).map((setting) => html`<li>
          <button class="link" onClick=${() => explain(setting.path)}>${setting.path}</button>
          <code>${short(setting.value)}</code>
        </li>`)}
      </ul>
    </details>`)}`;
}

function short(value) {
  const text = JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
