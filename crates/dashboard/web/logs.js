// The logs of a service's pods, with a search and a choice of levels.

import { html, useEffect, useState } from "/vendor/htm-preact.js";
import { text } from "/api.js";
import { counted } from "/format.js";

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

/// Levels by severity, with the words that programs write for them.
const LEVELS = [
  ["error", /\b(ERROR|FATAL|CRITICAL|PANIC)\b|"level":\s*"(error|fatal|critical)"|^Traceback|\bpanicked at\b/i],
  ["warning", /\bWARN(ING)?\b|"level":\s*"warn/i],
  ["info", /\b(INFO|NOTICE)\b|"level":\s*"(info|notice)/i],
  ["debug", /\b(DEBUG|TRACE)\b|"level":\s*"(debug|trace)/i],
];
/// Levels stand near the beginning of a line. Further on, the word may be a part of a message.
const BEGINNING = 120;

/// Splits a log into lines with levels. A line without a level continues the line before.
function parsed(log) {
  let level = "info";
  return log.replace(/\n$/, "").split("\n").map((line) => {
    const found = LEVELS.find(([, words]) => words.test(line.slice(0, BEGINNING)));
    if (found) [level] = found;
    return { line, level };
  });
}

/// Returns the line with its matches marked. `needle` is in lower case.
function marked(line, needle) {
  const lower = line.toLowerCase();
  // In some languages, a text in lower case has another length, so that places differ.
  if (!needle || lower.length !== line.length) return line;
  const pieces = [];
  let from = 0;
  for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, from)) {
    pieces.push(line.slice(from, at), html`<mark>${line.slice(at, at + needle.length)}</mark>`);
    from = at + needle.length;
  }
  pieces.push(line.slice(from));
  return pieces;
}

export function Logs({ tree, known }) {
  const [chosen, setChosen] = useState(null);
  const [log, setLog] = useState("");
  const [problem, setProblem] = useState(null);
  const [search, setSearch] = useState("");
  const [least, setLeast] = useState("debug");
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
  const needle = search.trim().toLowerCase();
  const rank = (level) => LEVELS.findIndex(([name]) => name === level);
  const lines = log ? parsed(log) : [];
  const shown = lines.filter(({ line, level }) => rank(level) <= rank(least) && line.toLowerCase().includes(needle));
  return html`
    <div class="choices">
      <label>Container <select id="container" value=${key(open)} onChange=${(event) => setChosen(event.target.value)}>
        ${all.map((one) => html`<option key=${key(one)} value=${key(one)}>${one.pod}: ${one.container}</option>`)}
      </select></label>
      <label>Level <select id="level" value=${least} onChange=${(event) => setLeast(event.target.value)}>
        <option value="debug">all</option><option value="info">info and above</option>
        <option value="warning">warnings and errors</option><option value="error">errors</option>
      </select></label>
      <label class="grow">Search <input id="search" type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label>
    </div>
    ${problem && html`<p class="trouble">${problem}</p>`}
    <p class="counts" role="status">${shown.length === lines.length ? `The newest ${counted(lines.length, "line")}` : `${shown.length} of ${counted(lines.length, "line")}`}</p>
    <pre tabindex="0" class="log" aria-label="The end of the log">${shown.length === 0
      ? (lines.length === 0 ? "(empty)" : "No line matches.")
      : shown.map(({ line, level }) => html`<span class=${level}>${marked(line, needle)}${"\n"}</span>`)}</pre>`;
}
