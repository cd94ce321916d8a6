// The frame of the page: the open service, its view, and the event feed.

import { html, render, useEffect, useMemo, useRef, useState } from "/vendor/htm-preact.js";
import { listen } from "/api.js";
import { counted, Mark, Tree, unmarked, WORDS } from "/tree.js";
import { Logs } from "/logs.js";
import { Decisions } from "/decisions.js";
import { Playground } from "/playground.js";
import { Replicas, remember } from "/replicas.js";
import { Fields } from "/fields.js";
import { Edit } from "/edit.js";
import { Keys } from "/keys.js";

const VIEWS = [
  ["tree", "Tree", Tree],
  ["replicas", "Replicas", Replicas],
  ["decisions", "Decisions", Decisions],
  ["playground", "Playground", Playground],
  ["logs", "Logs", Logs],
  ["fields", "Fields", Fields],
  ["edit", "Edit", Edit],
];
/// The number of services that are drawn at once. The filter finds the others.
const DRAWN = 200;

/// `#/namespace/name/view?parameters`
function route() {
  const [path, query] = location.hash.slice(2).split("?");
  const [namespace, name, view] = path.split("/").map(decodeURIComponent);
  return { service: name ? `${namespace}/${name}` : null, view: view || "tree", query: new URLSearchParams(query) };
}

function Services({ services, open }) {
  const [filter, setFilter] = useState("");
  const all = useMemo(() => [...services.values()].sort((a, b) => (a.service < b.service ? -1 : 1)), [services]);
  const needle = filter.toLowerCase();
  const found = all.filter((head) => `${head.service} ${WORDS[head.mark]} ${head.text}`.toLowerCase().includes(needle));
  const count = (mark) => all.filter((head) => head.mark === mark).length;
  return html`<nav aria-label="Services" class="services ${open ? "beside" : ""}">
    <div class="find">
      ${open ? html`<h2>Services</h2>` : html`<h1>Services</h1>`}
      <label for="filter" class="unseen">Filter services</label>
      <input id="filter" type="search" placeholder="Filter ( / )" value=${filter}
        onInput=${(event) => setFilter(event.target.value)} />
      <p class="counts">${counted(all.length, "service")}: ${count("good")} ready, ${count("waiting")} waiting, ${count("bad")} broken</p>
    </div>
    <ul>
      ${found.slice(0, DRAWN).map((head) => html`<li key=${head.service}>
        <a href="#/${head.service}" aria-current=${open === head.service ? "page" : null}>
          <${Mark} mark=${head.mark} /> <b>${head.service}</b> <span class="cause">${unmarked(head)}</span>
        </a>
      </li>`)}
    </ul>
    ${found.length > DRAWN && html`<p class="quiet">${found.length - DRAWN} more; narrow the filter to see them.</p>`}
    ${all.length === 0 && html`<p class="quiet">There are no LLMInferenceServices yet.</p>`}
    ${!open && html`<${Keys} />`}
  </nav>`;
}

function Service({ service, view, query, heard }) {
  const View = (VIEWS.find(([name]) => name === view) || VIEWS[0])[2];
  const title = useRef(null);
  useEffect(() => title.current && title.current.focus(), [service]);
  return html`<section aria-labelledby="title" class="service">
    <p class="back"><a href="#/">All services</a></p>
    <h1 id="title" tabindex="-1" ref=${title}>${service}</h1>
    <nav aria-label="Views" class="views">
      ${VIEWS.map(([name, label]) => html`<a key=${name} href="#/${service}/${name}"
        aria-current=${name === view ? "page" : null}>${label}</a>`)}
    </nav>
    <${View} key=${`${service} ${view}`} service=${service} query=${query} ...${heard} />
  </section>`;
}

function App() {
  const [at, setAt] = useState(route);
  const [services, setServices] = useState(new Map());
  const [heard, setHeard] = useState({});
  const [problem, setProblem] = useState("connecting…");
  const [hidden, setHidden] = useState(document.hidden);

  useEffect(() => {
    const moved = () => setAt(route());
    const seen = () => setHidden(document.hidden);
    const typed = (event) => {
      const typing = event.target.closest("input, textarea, select");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        document.getElementById("filter").focus();
      }
    };
    addEventListener("hashchange", moved);
    addEventListener("keydown", typed);
    document.addEventListener("visibilitychange", seen);
    return () => {
      removeEventListener("hashchange", moved);
      removeEventListener("keydown", typed);
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
        remember(at.service, data.replicas);
        setHeard((before) => ({ ...before, replicas: data }));
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
    <header><a href="#/" class="name">Longboat</a></header>
    <p role="status" class=${problem || heard.trouble ? "trouble" : "hidden"}>${problem || heard.trouble}</p>
    <main id="main" class=${at.service ? "two" : "one"}>
      ${list}
      ${at.service && html`<${Service} ...${at} heard=${heard} />`}
    </main>`;
}

render(html`<${App} />`, document.body);
