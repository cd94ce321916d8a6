// What if: a simulation of the service with other traffic or other numbers of replicas.

import { html, useEffect, useRef, useState } from "/vendor/htm-preact.js";
import { send } from "/api.js";
import { NOW, demand } from "/traffic.js";

const TRAFFIC = [
  ["sessions", "Conversations"],
  ["agents", "Agents"],
  ["documents", "Questions about documents"],
  ["poisson", "Independent requests"],
  ["bursts", "Bursts of independent requests"],
];

/// Shows the table, the sentences and the pictures of the page that `longboat simulate --html` writes.
function Result({ page }) {
  const place = useRef(null);
  useEffect(() => {
    // The style of the page is for the page alone; app.css has that of this view.
    const parsed = new DOMParser().parseFromString(page.replace(/<style>.*?<\/style>/s, ""), "text/html");
    parsed.querySelector("th").textContent = "Number";
    place.current.replaceChildren(...["table", "ul", ".charts"].map((part) => document.adoptNode(parsed.querySelector(part))));
  }, [page]);
  return html`<div class="wide simulated" tabindex="0" role="region" aria-label="Result" ref=${place}></div>`;
}

export function Simulate({ service }) {
  const now = Date.now();
  const { rate: seen } = demand(service, now - NOW, now);
  const [traffic, setTraffic] = useState("sessions");
  const [rate, setRate] = useState("");
  const [replicas, setReplicas] = useState("");
  const [engineArgs, setEngineArgs] = useState("");
  const [answer, setAnswer] = useState(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const usual = seen > 0 ? Number(seen.toPrecision(2)) : 1;
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    const numbers = replicas.split(/[\s,]+/).filter((word) => word !== "").map(Number);
    const wanted = { traffic, rate: rate === "" ? usual : Number(rate), replicas: numbers, engineArgs };
    try {
      setAnswer(await (await send("POST", "simulate", { service }, JSON.stringify(wanted))).json());
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(false);
  };
  return html`
    <form onSubmit=${submit}>
      <div class="choices">
        <label>Traffic <select id="traffic" value=${traffic} onChange=${(event) => setTraffic(event.target.value)}>
          ${TRAFFIC.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}
        </select></label>
        <label>Requests per second <input id="rate" type="number" min="0.01" max="1000" step="any" placeholder=${usual} value=${rate} onInput=${(event) => setRate(event.target.value)} /></label>
        <label>Replicas <input id="numbers" placeholder="those of now and others" value=${replicas} onInput=${(event) => setReplicas(event.target.value)} /></label>
        <label>Engine flags <input id="flags" class="code" placeholder="from simulate calibrate" value=${engineArgs} onInput=${(event) => setEngineArgs(event.target.value)} /></label>
      </div>
      <div class="buttons"><button type="submit" class="main" disabled=${busy}>Simulate</button></div>
    </form>
    <div aria-live="polite" aria-busy=${busy ? "true" : "false"}>
      ${problem && html`<p class="trouble">${problem}</p>`}
      ${busy && html`<p class="quiet">Simulating…</p>`}
      ${answer && answer.notes.map((note) => html`<p class="note">${note}</p>`)}
    </div>
    ${answer && html`<${Result} page=${answer.page} />`}
    <p class="quiet">The real picker with the configuration of the service, on models of engines in virtual time. The requests are made up${
      seen > 0 ? `; ${usual} per second is what the service got in the last minute` : ""}. No engine runs, and nothing changes.</p>`;
}
