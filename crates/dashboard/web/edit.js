// Editing a service: shows the effects of the edit, and applies it after confirmation.

import { html, useEffect, useRef, useState } from "/vendor/htm-preact.js";
import { send, text } from "/api.js";

export function Edit({ service }) {
  const editor = useRef(null);
  const [read, setRead] = useState(0);
  const [problem, setProblem] = useState(null);
  const [difference, setDifference] = useState(null);
  const [done, setDone] = useState(null);
  useEffect(() => {
    text("manifest", { service }).then(
      (manifest) => {
        editor.current.value = manifest;
        setProblem(null);
        setDifference(null);
      },
      (error) => setProblem(error.message),
    );
  }, [service, read]);
  const act = async (action) => {
    setProblem(null);
    setDone(null);
    try {
      await action(editor.current.value);
    } catch (error) {
      setProblem(error.message);
    }
  };
  const compare = () => act(async (manifest) => {
    setDifference(null);
    const answer = await (await send("POST", "diff", {}, manifest)).json();
    setDifference({ manifest, ...answer });
  });
  const apply = () => act(async (manifest) => {
    await send("PUT", "manifest", { service }, manifest);
    setDone("Applied. The tree shows the progress.");
    setRead(read + 1);
  });
  const changed = () => {
    setDone(null);
    setDifference(null);
  };
  return html`
    <label for="manifest">Manifest of ${service}</label>
    <textarea id="manifest" class="code" rows="22" spellcheck=${false} ref=${editor} onInput=${changed}></textarea>
    <div class="buttons">
      <button onClick=${compare}>Show changes</button>
      <button onClick=${apply} disabled=${!difference || difference.refused}>Apply</button>
      <button onClick=${() => setRead(read + 1)}>Read again</button>
    </div>
    <div aria-live="polite">
      ${problem && html`<p class="trouble">${problem}</p>`}
      ${done && html`<p>${done}</p>`}
      ${difference && difference.findings.map((finding) => html`<p class="trouble">${finding}</p>`)}
      ${difference && html`<pre tabindex="0" class="said" aria-label="What changes">${difference.text || "Nothing changes."}</pre>`}
    </div>
    <p class="quiet">Apply replaces the service, with the rights of the kubeconfig. It fails if somebody else has changed the service in the meantime.</p>`;
}
