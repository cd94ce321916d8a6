// Editing a service: shows the effects of the edit, and applies it after confirmation.

import { html, useEffect, useRef, useState } from "/vendor/htm-preact.js";
import { send, text } from "/api.js";
import { highlighted } from "/yaml.js";

export function Edit({ service }) {
  const [read, setRead] = useState(0);
  const [problem, setProblem] = useState(null);
  const [difference, setDifference] = useState(null);
  const [done, setDone] = useState(null);
  const [manifest, setManifest] = useState("");
  const newest = useRef("");
  newest.current = manifest;
  const paper = useRef(null);
  useEffect(() => {
    text("manifest", { service }).then(
      (found) => {
        setManifest(found);
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
      await action();
    } catch (error) {
      setProblem(error.message);
    }
  };
  const compare = () => act(async () => {
    setDifference(null);
    const answer = await (await send("POST", "diff", {}, manifest)).json();
    // The text may have changed in the meantime, and what is applied must be what was compared.
    if (newest.current === manifest) setDifference(answer);
  });
  const apply = () => act(async () => {
    await send("PUT", "manifest", { service }, manifest);
    setDone("Applied. The tree shows the progress.");
    setRead(read + 1);
  });
  const changed = (event) => {
    setManifest(event.target.value);
    setDone(null);
    setDifference(null);
  };
  // The text of the editor is transparent, above the same text in colours.
  const follow = (event) => {
    paper.current.scrollTop = event.target.scrollTop;
    paper.current.scrollLeft = event.target.scrollLeft;
  };
  return html`
    <label for="manifest">Manifest of ${service}</label>
    <div class="editor">
      <pre aria-hidden="true" ref=${paper}>${highlighted(manifest)}</pre>
      <textarea id="manifest" class="code" spellcheck=${false} autocapitalize="off" value=${manifest} onInput=${changed} onScroll=${follow}></textarea>
    </div>
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
