// The services: the overview of all, and the list beside an open one.

import { html, useEffect, useMemo, useState } from "/vendor/htm-preact.js";
import { ApiKeys } from "/api-keys.js";
import { amount, counted, duration, gpuHours, perSecond } from "/format.js";
import { errorTone, Fact, numbers } from "/overview.js";
import { Mark, unmarked, WORDS } from "/tree.js";

/// The number of services that are drawn at once. The filter finds the others.
const DRAWN = 200;
/// The interval in which the overview draws its numbers again, in milliseconds.
const REDRAWN = 2500;

function Find({ filter, setFilter, all }) {
  const count = (mark) => all.filter((head) => head.mark === mark).length;
  return html`<div class="find">
    <label for="filter" class="unseen">Filter services</label>
    <input id="filter" type="search" placeholder="Filter ( / )" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
    <p class="counts">${counted(all.length, "service")}: ${count("good")} ready, ${count("waiting")} waiting, ${count("bad")} broken</p>
  </div>`;
}

/// A cell whose name is in the head of the table, or on phones beside the value.
const Cell = ({ name, tone, children }) => html`<span class="cell ${tone || ""}"><span class="label">${name}</span> ${children}</span>`;

function Row({ head, gpus }) {
  const { rate: requests, errors, half, most } = numbers(head.service);
  const [model, ...adapters] = head.models;
  return html`<a href="#/${head.service}" class="row">
    <span class="who"><${Mark} mark=${head.mark} /> <b>${head.service}</b> <span class="cause">${unmarked(head)}</span></span>
    <${Cell} name="Model" tone="model"><span class="fit" title=${head.models.join(", ")}>${model}${adapters.length > 0 ? ` + ${counted(adapters.length, "adapter")}` : ""}</span><//>
    <${Cell} name="Engine"><span class="fit">${head.engine || "–"}</span><//>
    <${Cell} name="Replicas" tone=${head.ready < head.replicas ? "waiting" : ""}>${head.ready}/${head.replicas}<//>
    <${Cell} name="Requests/s"><span class="rate">${amount(requests)}</span><//>
    <${Cell} name="First token">${duration(half)}${half !== null && html`<span class="quiet"> / ${duration(most)}</span>`}<//>
    <${Cell} name="Errors" tone=${errorTone(errors)}>${amount(errors && Math.round(errors))}<//>
    ${gpus && html`<${Cell} name="GPU-hours">${head.gpus ? amount(gpuHours(head.gpus)) : "–"}<//>`}
  </a>`;
}

function Totals({ all }) {
  const each = all.map((head) => numbers(head.service));
  const sum = (field) => each.reduce((total, one) => (one[field] === null ? total : (total || 0) + one[field]), null);
  const gpus = all.filter((head) => head.gpus);
  const ready = (field) => all.reduce((total, head) => total + head[field], 0);
  const errors = sum("errors");
  return html`<dl class="facts">
    <${Fact} name="Replicas" tone=${ready("ready") < ready("replicas") ? "waiting" : ""}>${ready("ready")} of ${ready("replicas")} ready<//>
    <${Fact} name="Requests">${perSecond(sum("rate"))}<//>
    <${Fact} name="Generated">${perSecond(sum("tokens"), "tokens")}<//>
    <${Fact} name="Errors" tone=${errorTone(errors)}>${amount(errors && Math.round(errors))} <small>in a minute</small><//>
    ${gpus.length > 0 && html`<${Fact} name="GPUs">${gpus.reduce((total, head) => total + head.gpus.count, 0)}
      <small>${counted(amount(gpus.reduce((total, head) => total + gpuHours(head.gpus), 0)), "GPU-hour")}</small><//>`}
  </dl>`;
}

export function Services({ services, open }) {
  const [filter, setFilter] = useState("");
  const [, redraw] = useState(0);
  // Rates change with the time, also without new samples.
  useEffect(() => {
    if (open) return undefined;
    const timer = setInterval(() => document.hidden || redraw((count) => count + 1), REDRAWN);
    return () => clearInterval(timer);
  }, [open]);
  const all = useMemo(() => [...services.values()].sort((a, b) => (a.service < b.service ? -1 : 1)), [services]);
  const needle = filter.toLowerCase();
  const found = all.filter((head) => `${head.service} ${WORDS[head.mark]} ${head.text} ${head.models.join(" ")} ${head.engine || ""}`.toLowerCase().includes(needle));
  const drawn = found.slice(0, DRAWN);
  const gpus = all.some((head) => head.gpus);
  return html`<nav aria-label="Services" class="services ${open ? "beside" : `overview ${gpus ? "gpus" : ""}`}">
    ${open ? html`<h2>Services</h2>` : html`<h1>Services</h1>`}
    ${!open && all.length > 0 && html`<${Totals} all=${all} />`}
    <${Find} filter=${filter} setFilter=${setFilter} all=${all} />
    ${!open && drawn.length > 0 && html`<p class="row names" aria-hidden="true"><span>Service</span><span>Model</span><span>Engine</span><span>Replicas</span>
      <span>Requests/s</span><span>First token P50 / P95</span><span>Errors</span>${gpus && html`<span>GPU-hours</span>`}</p>`}
    <ul>
      ${drawn.map((head) => html`<li key=${head.service}>
        ${open
          ? html`<a href="#/${head.service}" aria-current=${open === head.service ? "page" : null}>
              <${Mark} mark=${head.mark} /> <b>${head.service}</b> <span class="cause">${unmarked(head)}</span></a>`
          : html`<${Row} head=${head} gpus=${gpus} />`}
      </li>`)}
    </ul>
    ${found.length > DRAWN && html`<p class="quiet">${found.length - DRAWN} more; narrow the filter to see them.</p>`}
    ${all.length > 0 && found.length === 0 && html`<p class="quiet">No service matches “${filter}”.</p>`}
    ${all.length === 0 && html`<p class="quiet">There are no LLMInferenceServices yet.</p>`}
    ${!open && html`<${ApiKeys} />`}
  </nav>`;
}
