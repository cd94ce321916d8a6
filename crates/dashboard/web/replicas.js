// The graphs of a service: all replicas together, or each by itself, over a chosen time.

import { html, useState } from "/vendor/htm-preact.js";
import { Chart } from "/charts.js";
import { amount, counted, duration, percent, perSecond } from "/format.js";
import { begun, decoders, demand, engines, firstToken, gauges, grown, NOW, only, pickers, rate, share } from "/traffic.js";

/// The number of replicas for which graphs are drawn. The table has all replicas.
const DRAWN = 50;
/// The number of points of a line.
const STEPS = 75;
/// The time spans to choose from, in minutes.
const SPANS = [1, 5, 15, 60];
const SECOND = 1000;

const sum = (values) => (values.length > 0 ? values.reduce((one, other) => one + other, 0) : null);
const mean = (values) => (values.length > 0 ? sum(values) / values.length : null);
const whole = (value) => amount(Math.round(value));

/// Returns `value(from, to)` at every step of the span, where `from` is a while before `to`.
function over({ begin, end, span }, least, value) {
  const step = Math.max(2 * SECOND, span / STEPS);
  const behind = Math.max(least, 2 * step);
  const points = [];
  for (let time = end - span; time <= end + 1; time += step) {
    if (time >= begin + 4 * SECOND) points.push([time, value(time - behind, time)]);
  }
  return points;
}

/// The graphs. `all` returns the lines of the whole service, `each` the value of one replica, and `total` what they add up to.
const GRAPHS = [
  {
    title: "Requests",
    show: perSecond,
    all: (service, time) => [
      ["requests", over(time, 10 * SECOND, (from, to) => demand(service, from, to).rate)],
      ["errors", over(time, 10 * SECOND, (from, to) => rate(pickers(service).length > 0 ? pickers(service) : decoders(service), "errors", from, to))],
    ],
    each: (pods, from, to) => rate(pods, "requests", from, to),
    total: (service, from, to) => {
      const { requests, errors } = demand(service, from, to);
      return requests === null ? "" : `${counted(Math.round(requests), "request")}, ${counted(Math.round(errors), "error")}`;
    },
  },
  {
    title: "Time to first token",
    show: duration,
    all: (service, time) => [0.5, 0.95, 0.99].map((quantile) => [
      `P${quantile * 100}`,
      over(time, 30 * SECOND, (from, to) => firstToken(decoders(service), [quantile], from, to)[0]),
    ]),
    each: (pods, from, to) => firstToken(pods, [0.5], from, to)[0],
    total: (service, from, to) => {
      const [half, most] = firstToken(decoders(service), [0.5, 0.95], from, to);
      return half === null ? "" : `P50 ${duration(half)}, P95 ${duration(most)}`;
    },
  },
  {
    title: "Tokens",
    show: perSecond,
    all: (service, time) => [
      ["generated", over(time, 10 * SECOND, (from, to) => rate(decoders(service), "tokens", from, to))],
      ["of prompts", over(time, 10 * SECOND, (from, to) => rate(decoders(service), "promptTokens", from, to))],
    ],
    each: (pods, from, to) => rate(pods, "tokens", from, to),
    total: (service, from, to) => `${amount(grown(decoders(service), "tokens", from, to))} generated`,
  },
  {
    title: "Requests in engines",
    show: amount,
    all: (service, time) => [
      ["running", over(time, 0, (_, to) => sum(gauges(engines(service), "running", to)))],
      ["waiting", over(time, 0, (_, to) => sum(gauges(engines(service), "waiting", to)))],
    ],
    each: (pods, _, to) => sum(["running", "waiting"].flatMap((gauge) => gauges(pods, gauge, to))),
    total: (service, _, to) => `${whole(sum(gauges(engines(service), "running", to)) || 0)} running, ${whole(sum(gauges(engines(service), "waiting", to)) || 0)} waiting`,
  },
  {
    title: "KV cache in use",
    show: percent,
    all: (service, time) => [
      ["mean", over(time, 0, (_, to) => mean(gauges(engines(service), "kvUsage", to)))],
      ["fullest", over(time, 0, (_, to) => Math.max(...gauges(engines(service), "kvUsage", to), 0))],
    ],
    each: (pods, _, to) => mean(gauges(pods, "kvUsage", to)),
    total: (service, _, to) => `${percent(mean(gauges(engines(service), "kvUsage", to)))} on average`,
  },
  {
    title: "Prompt tokens found in prefix caches",
    show: percent,
    all: (service, time) => [["found", over(time, 30 * SECOND, (from, to) => share(engines(service), "hits", "queries", from, to))]],
    each: (pods, from, to) => share(pods, "hits", "queries", from, to),
    total: (service, from, to) => {
      const found = share(engines(service), "hits", "queries", from, to);
      return found === null ? "" : `${percent(found)} of ${amount(grown(engines(service), "queries", from, to))}`;
    },
  },
];

/// The choices of this tab, which stay when the view changes. Without a choice, the span covers what is known.
const chosen = { minutes: null, each: false };

export function Replicas({ service, replicas }) {
  const [, redraw] = useState(0);
  if (!replicas) return html`<p class="quiet">Reading the metrics of the replicas…</p>`;
  const choose = (what) => {
    Object.assign(chosen, what);
    redraw((count) => count + 1);
  };
  const end = Date.now();
  const shortest = SPANS.find((minutes) => minutes * 60 * SECOND >= end - begun(service)) || SPANS[0];
  const open = chosen.minutes || shortest;
  const span = open * 60 * SECOND;
  const time = { begin: begun(service), end, span };
  const all = replicas.filter(({ role }) => role !== "picker");
  const lines = (graph) => (chosen.each
    ? all.slice(0, DRAWN).filter(({ pod }) => only(service, pod).length > 0).map(({ pod }) => [pod, over(time, 30 * SECOND, (from, to) => graph.each(only(service, pod), from, to))])
    : graph.all(service, time));
  return html`
    <div class="choices">
      <div role="group" aria-label="Time span">
        ${SPANS.map((minutes) => html`<button aria-pressed=${open === minutes ? "true" : "false"} onClick=${() => choose({ minutes })}>${minutes === 60 ? "1 h" : `${minutes} min`}</button>`)}
      </div>
      <div role="group" aria-label="Lines">
        ${[[false, "All replicas together"], [true, "Each replica"]].map(([each, label]) => html`
          <button aria-pressed=${chosen.each === each ? "true" : "false"} onClick=${() => choose({ each })}>${label}</button>`)}
      </div>
    </div>
    ${all.length === 0 && html`<p class="quiet">There are no replicas.</p>`}
    ${all.length > 0 && html`<div class="charts">
      ${GRAPHS.map((graph) => html`<${Chart} key=${graph.title} title=${graph.title} total=${decoders(service).length > 0 ? graph.total(service, end - span, end) : ""}
        show=${graph.show} span=${span} end=${end} named=${!chosen.each}
        series=${lines(graph).map(([name, points]) => ({ name, points }))} />`)}
    </div>
    <div class="wide" tabindex="0" role="region" aria-label="Replicas"><table>
      <caption class="unseen">Replicas, in the last minute</caption>
      <thead><tr><th>Replica</th><th>Role</th><th class="number">Requests/s</th><th class="number">P50 first token</th>
        <th class="number">Tokens/s</th><th class="number">Running</th><th class="number">Waiting</th><th class="number">KV cache</th><th class="number">Prefix hits</th></tr></thead>
      <tbody>${all.map(({ pod, role, sample, trouble }, index) => html`<tr key=${pod}>
        <th scope="row">${chosen.each && index < DRAWN && html`<span class="key line${index % 8}"></span>`} ${pod}</th>
        <td>${role}</td>
        ${trouble || !sample
          ? html`<td class="bad" colspan="7">${trouble}</td>`
          : html`<td class="number">${amount(rate(only(service, pod), "requests", end - NOW, end))}</td>
            <td class="number">${duration(firstToken(only(service, pod), [0.5], end - NOW, end)[0])}</td>
            <td class="number">${amount(rate(only(service, pod), "tokens", end - NOW, end))}</td>
            <td class="number">${amount(sample.running)}</td><td class="number">${amount(sample.waiting)}</td>
            <td class="number">${percent(sample.kvUsage)}</td>
            <td class="number">${percent(share(only(service, pod), "hits", "queries", end - NOW, end))}</td>`}
      </tr>`)}</tbody>
    </table></div>
    <p class="quiet">The table shows the last minute. Graphs begin when this page begins to read the metrics, and go on while it is visible, in every view.</p>`}`;
}
