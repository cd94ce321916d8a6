// The logs of a service's pods.

import { html, useEffect, useState } from "/vendor/htm-preact.js";
import { text } from "/api.js";

/// Returns every container of every pod, init containers first.
function containers(tree) {
  const found = [];
  const visit = (object) => {
    if (object.kind === "Pod") {
      const status = object.status || {};
      for (const container of [...(status.initContainerStatuses || []), ...(status.containerStatuses || [])]) {
        found.push({ pod: object.metadata.name, namespace: object.metadata.namespace, container: container.name });
      }
    }
    (object.children || []).forEach(visit);
  };
  visit(tree.object);
  return found;
}

export function Logs({ tree, known }) {
  const [chosen, setChosen] = useState(null);
  const [log, setLog] = useState("");
  const [problem, setProblem] = useState(null);
  const all = tree ? containers(tree) : [];
  const key = (one) => `${one.pod} ${one.container}`;
  const usual = all.find((one) => one.container === "main") || all[0];
  const open = all.find((one) => key(one) === chosen) || usual;
  useEffect(() => {
    if (!open) return undefined;
    let live = true;
    const ask = async () => {
      if (document.hidden) return;
      try {
        const said = await text("logs", open);
        if (live) {
          setLog(said);
          setProblem(null);
        }
      } catch (error) {
        if (live) setProblem(error.message);
      }
    };
    setLog("");
    ask();
    const timer = setInterval(ask, 3000);
    return () => {
      live = false;
      clearInterval(timer);
    };
  }, [open && key(open)]);
  if (!known) return html`<p class="quiet">Loading…</p>`;
  if (!open) return html`<p class="quiet">No container has started yet.</p>`;
  return html`
    <label for="container">Container</label>
    <select id="container" value=${key(open)} onChange=${(event) => setChosen(event.target.value)}>
      ${all.map((one) => html`<option key=${key(one)} value=${key(one)}>${one.pod}: ${one.container}</option>`)}
    </select>
    ${problem && html`<p class="trouble">${problem}</p>`}
    <pre tabindex="0" class="log" aria-label="The end of the log">${log || "(empty)"}</pre>`;
}
