// The frame of the page: the open service, its view, and the event feed.

import { html, render, useEffect, useMemo, useRef, useState } from "/vendor/htm-preact.js";
import { listen } from "/api.js";
import { Help, useKeys } from "/keys.js";
import { Services } from "/services.js";
import { Overview } from "/overview.js";
import { Mark, Tree } from "/tree.js";
import { Logs } from "/logs.js";
import { Decisions } from "/decisions.js";
import { Playground } from "/playground.js";
import { Replicas } from "/replicas.js";
import { forget, remember } from "/traffic.js";
import { Fields } from "/fields.js";
import { Edit } from "/edit.js";
import { Simulate } from "/simulate.js";

const VIEWS = [
  ["overview", "Overview", Overview],
  ["tree", "Tree", Tree],
  ["replicas", "Graphs", Replicas],
  ["decisions", "Decisions", Decisions],
  ["playground", "Playground", Playground],
  ["logs", "Logs", Logs],
  ["fields", "Fields", Fields],
  ["edit", "Edit", Edit],
  ["simulate", "What if", Simulate],
];

/// `#/namespace/name/view?parameters`
function route() {
  const [path, query] = location.hash.slice(2).split("?");
  const [namespace, name, view] = path.split("/").map(decodeURIComponent);
  return { service: name ? `${namespace}/${name}` : null, view: view || "overview", query: new URLSearchParams(query) };
}

function Service({ service, view, query, services, heard }) {
  const View = (VIEWS.find(([name]) => name === view) || VIEWS[0])[2];
  const title = useRef(null);
  const tabs = useRef(null);
  useEffect(() => title.current && title.current.focus(), [service]);
  // On a phone, the row of views is wider than the screen.
  useEffect(() => {
    const tab = tabs.current.querySelector("[aria-current]");
    if (tab) tab.scrollIntoView({ block: "nearest", inline: "center" });
  }, [service, view]);
  const head = services.get(service);
  return html`<section aria-labelledby="title" class="service">
    <p class="back"><a href="#/">All services</a></p>
    <h1 id="title" tabindex="-1" ref=${title}>${service} ${head && html`<${Mark} mark=${head.mark} />`}</h1>
    <nav aria-label="Views" class="views" ref=${tabs}>
      ${VIEWS.map(([name, label]) => html`<a key=${name} href="#/${service}/${name}"
        aria-current=${name === view ? "page" : null}>${label}</a>`)}
    </nav>
    <${View} key=${`${service} ${view}`} service=${service} query=${query} head=${head} services=${services} ...${heard} />
  </section>`;
}

/// The keys of the page, with what they mean.
function keys(at, services, help) {
  const go = (hash) => () => {
    location.hash = hash;
  };
  const names = [...services.keys()].sort();
  const next = (step) => () => {
    const index = names.indexOf(at.service);
    const name = names[index < 0 ? (step > 0 ? 0 : names.length - 1) : index + step];
    if (name) location.hash = `#/${name}/${at.service ? at.view : ""}`;
  };
  return [
    ["?", help, "show this help"],
    ["/", () => document.getElementById("filter").focus(), "filter the services"],
    ["j", next(1), "open the next service"],
    ["k", next(-1), "open the previous service"],
    ["a", go("#/"), "show all services"],
    ...(at.service ? VIEWS.map(([view, label], index) => [`${index + 1}`, go(`#/${at.service}/${view}`), label]) : []),
  ];
}

function App() {
  const [at, setAt] = useState(route);
  const [services, setServices] = useState(new Map());
  const [heard, setHeard] = useState({});
  const [problem, setProblem] = useState("connecting…");
  const [hidden, setHidden] = useState(document.hidden);
  const [help, setHelp] = useState(false);
  const actions = keys(at, services, () => setHelp(true));
  useKeys(actions);

  useEffect(() => {
    const moved = () => setAt(route());
    const seen = () => setHidden(document.hidden);
    addEventListener("hashchange", moved);
    document.addEventListener("visibilitychange", seen);
    return () => {
      removeEventListener("hashchange", moved);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);

  // A hidden page closes its feed.
  useEffect(() => {
    if (hidden) return undefined;
    const end = new AbortController();
    setHeard({});
    let fresh = true;
    const each = (name, data) => {
      if (name === "services") {
        setServices((before) => {
          const after = new Map(fresh ? [] : before);
          fresh = false;
          for (const head of data.set) after.set(head.service, head);
          for (const gone of data.gone) after.delete(gone);
          return after;
        });
      } else if (name === "service") {
        setHeard((before) => ({ ...before, tree: data.tree, trouble: data.trouble, known: true }));
      } else if (name === "replicas") {
        remember(data.replicas);
        if (at.service) {
          forget(at.service, data.replicas);
          setHeard((before) => ({ ...before, replicas: data.replicas }));
        }
      }
    };
    const state = (said) => {
      fresh = true;
      setProblem(said);
    };
    listen(at.service, end.signal, each, state);
    return () => end.abort();
  }, [at.service, hidden]);

  useEffect(() => {
    document.title = at.service ? `${at.service} · Longboat` : "Longboat";
  }, [at.service]);

  // Keeps the same node unless a service changes, so that Preact does not compare a thousand services for each sample of a
  // replica.
  const list = useMemo(() => html`<${Services} services=${services} open=${at.service} />`, [services, at.service]);
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header><a href="#/" class="name">Longboat</a> <button class="help" onClick=${() => setHelp(true)}>Keyboard <kbd aria-hidden="true">?</kbd></button></header>
    <p role="status" class=${problem || heard.trouble ? "trouble" : "hidden"}>${problem || heard.trouble}</p>
    <main id="main" class=${at.service ? "two" : "one"}>
      ${list}
      ${at.service && html`<${Service} ...${at} services=${services} heard=${heard} />`}
    </main>
    ${help && html`<${Help} actions=${actions} close=${() => setHelp(false)} />`}`;
}

render(html`<${App} />`, document.body);
