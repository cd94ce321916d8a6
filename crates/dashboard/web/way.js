// The way of a request through a service, as a picture with live numbers.

import { html, useEffect, useRef, useState } from "/vendor/htm-preact.js";
import { amount, counted, duration, percent, perSecond, shortened } from "/format.js";
import { demand, firstToken, grown, NOW, only, pickers, rate } from "/traffic.js";

/// The number of replicas of a role that are drawn. One more box counts the others.
const DRAWN = 5;
/// Narrower pictures go from top to bottom.
const WIDE = 640;
/// The height of the box of a replica, and of a narrow one, whose numbers need one more line.
const ROW = 62;
const NARROW_ROW = 80;
const NARROW = 235;
/// The height of the other boxes.
const BOX = 76;
const GAP = 12;
const row = (width) => (width < NARROW ? NARROW_ROW : ROW);

/// Returns the condition of this type as a mark, or null if there is none.
function condition(tree, type) {
  const found = ((tree.object.status && tree.object.status.conditions) || []).find((one) => one.type === type);
  return found ? (found.status === "True" ? "good" : found.status === "False" ? "bad" : "waiting") : null;
}

/// Cuts a text to a width, in pixels of a font of 12.5 pixels.
function cut(text, width) {
  const most = Math.max(4, Math.floor(width / 6.9));
  return text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(text.length - Math.floor(most / 2))}`;
}

/// Computes what the picture shows. It draws nothing, so that the words for screen readers come from the same numbers.
function facts(service, tree, replicas) {
  const end = Date.now();
  const status = tree.object.status || {};
  const gateways = (status.router && status.router.gateways) || [];
  const routes = gateways.flatMap(({ httpRoutes }) => httpRoutes || []);
  const marks = new Map(tree.lines.map(({ subject, mark }) => [subject.slice(subject.lastIndexOf(" ") + 1), mark]));
  const engines = replicas.filter(({ role }) => role !== "picker");
  const group = (role) => {
    const pods = engines.filter((one) => one.role === role);
    const short = shortened(pods.map(({ pod }) => pod));
    const requests = (pod) => grown(only(service, pod), "requests", end - NOW, end);
    const total = pods.reduce((sum, { pod }) => sum + requests(pod), 0);
    const all = pods.map(({ pod, sample, trouble }) => ({
      pod,
      name: short(pod),
      trouble,
      mark: trouble ? "bad" : marks.get(pod) || "waiting",
      share: total > 0 ? requests(pod) / total : null,
      running: sample ? sample.running : 0,
      waiting: sample ? sample.waiting : 0,
      kv: sample ? sample.kvUsage : null,
      first: firstToken(only(service, pod), [0.5], end - NOW, end)[0],
    }));
    const drawn = [...all].sort((one, other) => (other.share || 0) - (one.share || 0) || (one.pod < other.pod ? -1 : 1)).slice(0, all.length > DRAWN ? DRAWN - 1 : DRAWN);
    // The same order at every moment, or boxes would jump.
    drawn.sort((one, other) => (one.pod < other.pod ? -1 : 1));
    const others = all.filter((one) => !drawn.includes(one));
    return {
      all,
      drawn,
      others: others.length > 0 && { count: others.length, running: others.reduce((sum, one) => sum + one.running, 0), share: total > 0 ? others.reduce((sum, one) => sum + one.share, 0) : null },
      rate: rate(pods.flatMap(({ pod }) => only(service, pod)), "requests", end - NOW, end),
    };
  };
  const asked = pickers(service);
  const picker = replicas.filter(({ role }) => role === "picker");
  const picks = grown(asked, "picks", end - NOW, end);
  return {
    demand: demand(service, end - NOW, end),
    gateway: gateways.length > 0 && {
      name: gateways[0].name + (gateways.length > 1 ? ` and ${gateways.length - 1} more` : ""),
      mark: condition(tree, "GatewaysReady") || condition(tree, "RouterReady"),
      route: routes.length > 0 ? routes[0].name : null,
      routeMark: condition(tree, "HTTPRoutesReady"),
    },
    picker: picker.length > 0 && {
      mark: condition(tree, "SchedulerWorkloadReady"),
      trouble: picker.every(({ sample }) => !sample) ? picker[0].trouble || "no metrics" : null,
      waiting: picker.reduce((sum, { sample }) => sum + (sample ? sample.waiting : 0), 0),
      running: picker.reduce((sum, { sample }) => sum + (sample ? sample.running : 0), 0),
      time: picks > 0 ? grown(asked, "pickSeconds", end - NOW, end) / picks : null,
    },
    decode: group("decode"),
    prefill: group("prefill"),
  };
}

/// The picture in words.
function words(service, { demand: { rate: requests, errors }, gateway, picker, decode, prefill }) {
  const parts = [`Requests to ${service}: ${amount(requests)} per second, ${errors === null ? "" : counted(Math.round(errors), "error")} in the last minute.`];
  if (gateway) parts.push(`They come through gateway ${gateway.name}${gateway.route ? ` and route ${gateway.route}` : ""}.`);
  if (picker) parts.push(picker.trouble ? `The picker: ${picker.trouble}.` : `The picker takes ${duration(picker.time)} to choose a replica.`);
  for (const { pod, share, running, waiting } of decode.drawn) parts.push(`Replica ${pod}: ${percent(share)} of the requests, ${amount(running)} running, ${amount(waiting)} waiting.`);
  if (decode.others) parts.push(`${counted(decode.others.count, "more replica")}.`);
  if (prefill.all.length > 0) parts.push(`${counted(prefill.all.length, "prefill replica")} compute prompts, ${amount(prefill.rate)} per second.`);
  return parts.join(" ");
}

/// A box with a title, a mark and lines of text.
function Box({ x, y, width, height, title, mark, lines, tone, hint, beside }) {
  return html`<g class="box ${tone || ""}">
    ${hint && html`<title>${hint}</title>`}
    <rect x=${x} y=${y} width=${width} height=${height} rx="7" />
    ${mark && html`<circle class="dot ${mark}" cx=${x + width - 14} cy=${y + 17} r="4.5" />`}
    <text class="title" x=${x + 12} y=${y + 23}>${cut(title, width - (beside || 40))}</text>
    ${lines.filter(Boolean).map((line, index) => html`<text x=${x + 12} y=${y + 42 + index * 18} class=${line.tone || ""}>${cut(line.text || line, width - 20)}</text>`)}
  </g>`;
}

const text = (value, tone) => ({ text: value, tone });

function Replica({ x, y, width, replica: { pod, name, mark, share, running, waiting, kv, first, trouble } }) {
  const load = trouble || `${amount(running)} running, ${amount(waiting)} waiting`;
  const narrow = width < NARROW;
  const bottom = y + row(width) - 13;
  const soon = first === null ? null : duration(first);
  return html`<g>
    <${Box} x=${x} y=${y} width=${width} height=${row(width)} title=${name} mark=${mark} hint=${`${pod}${trouble ? `: ${trouble}` : ""}`} beside=${share === null ? 40 : 82}
      lines=${[text(load, trouble ? "bad" : ""), narrow && soon && `first token ${soon}`]} />
    ${share !== null && html`<text class="share" x=${x + width - 28} y=${y + 23} text-anchor="end">${percent(share)}</text>`}
    ${kv !== null && html`<g><title>KV cache: ${percent(kv)} in use</title>
      <rect class="meter" x=${x + 12} y=${bottom} width=${width - 24} height="5" rx="2.5" />
      <rect class="level" x=${x + 12} y=${bottom} width=${Math.max(kv > 0 ? 3 : 0, (width - 24) * Math.min(1, kv))} height="5" rx="2.5" /></g>`}
    ${soon && !narrow && html`<text x=${x + width - 12} y=${y + 42} text-anchor="end">${soon}</text>`}
  </g>`;
}

/// A replica group: its boxes from the top down, in a frame with a title.
function Group({ x, y, width, title, group, none }) {
  const count = group.drawn.length + (group.others ? 1 : 0);
  const step = row(width) + GAP;
  return html`<g>
    <text class="heading" x=${x} y=${y - 9}>${title}</text>
    ${count === 0 && html`<${Box} x=${x} y=${y} width=${width} height=${row(width)} title=${none} tone="empty" lines=${["Nothing can answer."]} />`}
    ${group.drawn.map((replica, index) => html`<${Replica} key=${replica.pod} x=${x} y=${y + index * step} width=${width} replica=${replica} />`)}
    ${group.others && html`<${Box} x=${x} y=${y + group.drawn.length * step} width=${width} height=${row(width)} title=${counted(group.others.count, "more replica")}
      tone="empty" lines=${[`${amount(group.others.running)} running`]} />
      ${group.others.share !== null && html`<text class="share" x=${x + width - 28} y=${y + group.drawn.length * step + 23} text-anchor="end">${percent(group.others.share)}</text>`}`}
  </g>`;
}

const height = (group, width) => Math.max(1, group.drawn.length + (group.others ? 1 : 0)) * (row(width) + GAP) - GAP;

/// A line from one point to another. It moves while requests go along it, and is thicker the larger their share.
function Flow({ path, share, live, dashed, label, at, anchor }) {
  return html`<g class="flow ${live ? "live" : ""} ${dashed ? "asks" : ""}">
    <path d=${path} stroke-width=${1.5 + 4 * (share || 0)} marker-end="url(#tip)" marker-start=${dashed ? "url(#tip)" : null} />
    ${label && html`<text x=${at[0]} y=${at[1]} text-anchor=${anchor || "middle"}>${label}</text>`}
  </g>`;
}

const curve = (x1, y1, x2, y2) => `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;

function gatewayLines(gateway) {
  if (!gateway) return [];
  return [gateway.name, gateway.route ? text(`route ${gateway.route}`, gateway.routeMark === "bad" ? "bad" : "") : null];
}

function pickerLines({ trouble, time, waiting, running }) {
  if (trouble) return [text(trouble, "bad")];
  return [
    time === null ? "no requests in the last minute" : `decides in ${duration(time)}`,
    `${amount(running)} in flight${waiting > 0 ? `, ${amount(waiting)} held back` : ""}`,
  ];
}

function demandLines({ rate: requests, errors }) {
  return [perSecond(requests, "requests"), errors !== null && text(counted(Math.round(errors), "error"), errors > 0 ? "bad" : "")];
}

/// The head of an arrow.
const tip = html`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" /></marker></defs>`;

/// From left to right: clients, gateway (its picker above), decode replicas, prefill replicas.
function Across({ width, facts: { demand: load, gateway, picker, decode, prefill } }) {
  const apart = prefill.all.length > 0;
  const between = Math.min(96, width * (apart ? 0.055 : 0.1));
  const first = Math.min(150, width * 0.145);
  const second = Math.min(apart ? 190 : 240, width * 0.27);
  const left = first + between + second + between;
  const handover = 74;
  const third = apart ? (width - left - 2 - handover) / 2 : Math.min(400, width - left - 2);
  const end = left + third + handover;
  const half = Math.max(height(decode, third), apart ? height(prefill, third) : 0) / 2;
  const middle = 28 + Math.max(half, BOX / 2, picker ? BOX * 1.5 + 34 - 20 : 0);
  const total = middle + Math.max(half, BOX / 2) + 6;
  const x = first + between;
  const live = load.rate > 0;
  const start = middle - height(decode, third) / 2;
  const rows = [...decode.drawn, ...(decode.others ? [decode.others] : [])];
  const prefills = prefill.rate > 0;
  return html`<svg viewBox="0 0 ${width} ${total}" width=${width} height=${total} aria-hidden="true">
    ${tip}
    <${Flow} path=${`M${first + 3} ${middle}L${x - 3} ${middle}`} live=${live} share=${live ? 0.5 : 0} />
    ${rows.map(({ share }, index) => html`<${Flow} share=${share} live=${share > 0}
      path=${curve(x + second + 3, middle, left - 4, start + index * (row(third) + GAP) + row(third) / 2)} />`)}
    ${picker && html`<${Flow} dashed=${true} live=${live} path=${`M${x + second / 2} ${middle - BOX / 2 - 3}L${x + second / 2} ${middle - BOX / 2 - 31}`} label="which replica?"
      at=${[x + second / 2 + 10, middle - BOX / 2 - 13]} anchor="start" />`}
    ${apart && html`
      <${Flow} path=${`M${left + third + 4} ${middle - 11}L${end - 5} ${middle - 11}`} live=${prefills} share=${prefills ? 0.5 : 0} label="prompt" at=${[(left + third + end) / 2, middle - 20]} />
      <${Flow} path=${`M${end - 4} ${middle + 11}L${left + third + 5} ${middle + 11}`} live=${prefills} share=${prefills ? 0.5 : 0} label="KV cache" at=${[(left + third + end) / 2, middle + 31]} />`}
    <${Box} x=${1} y=${middle - BOX / 2} width=${first} height=${BOX} title="Clients" lines=${demandLines(load)} />
    <${Box} x=${x} y=${middle - BOX / 2} width=${second} height=${BOX} title=${gateway ? "Gateway" : "Service"} mark=${gateway && gateway.mark} hint=${gateway ? gateway.name : null}
      lines=${gateway ? gatewayLines(gateway) : ["no gateway", "any replica may answer"]} />
    ${picker && html`<${Box} x=${x} y=${middle - BOX * 1.5 - 34} width=${second} height=${BOX} tone="strong" title="Picker" mark=${picker.mark} hint=${picker.trouble} lines=${pickerLines(picker)} />`}
    <${Group} x=${left} y=${start} width=${third} title=${apart ? "Decode" : "Replicas"} group=${decode} none="No replicas" />
    ${apart && html`<${Group} x=${end} y=${middle - height(prefill, third) / 2} width=${third} title="Prefill" group=${prefill} />`}
  </svg>`;
}

/// From top to bottom, for phones.
function Down({ width, facts: { demand: load, gateway, picker, decode, prefill } }) {
  const apart = prefill.all.length > 0;
  const half = picker ? (width - 40) / 2 : width;
  const live = load.rate > 0;
  const inner = width - 30;
  const middle = 100;
  const start = middle + BOX + 52;
  const below = start + height(decode, inner) + 84;
  const total = (apart ? below + height(prefill, inner) : start + height(decode, inner)) + 2;
  const rows = [...decode.drawn, ...(decode.others ? [decode.others] : [])];
  const prefills = prefill.rate > 0;
  const arrows = { top: below - 80, bottom: below - 30 };
  const trunk = 9;
  return html`<svg viewBox="0 0 ${width} ${total}" width=${width} height=${total} aria-hidden="true">
    ${tip}
    <${Flow} path=${`M${half / 2} ${66}L${half / 2} ${middle - 4}`} live=${live} share=${live ? 0.5 : 0} />
    ${picker && html`<${Flow} dashed=${true} live=${live} path=${`M${half + 4} ${middle + BOX / 2}L${half + 36} ${middle + BOX / 2}`} />`}
    ${rows.map(({ share }, index) => {
      const y = start + index * (row(inner) + GAP) + row(inner) / 2;
      return html`<${Flow} path=${`M${trunk} ${middle + BOX + 3}L${trunk} ${y - 8}Q${trunk} ${y} ${trunk + 8} ${y}L${25} ${y}`} share=${share} live=${share > 0} />`;
    })}
    ${apart && html`
      <${Flow} path=${`M${width * 0.4} ${arrows.top}L${width * 0.4} ${arrows.bottom}`} live=${prefills} share=${prefills ? 0.5 : 0} label="prompt" at=${[width * 0.4 - 10, below - 50]} anchor="end" />
      <${Flow} path=${`M${width * 0.6} ${arrows.bottom}L${width * 0.6} ${arrows.top}`} live=${prefills} share=${prefills ? 0.5 : 0} label="KV cache" at=${[width * 0.6 + 10, below - 50]} anchor="start" />`}
    <${Box} x=${1} y=${1} width=${width - 2} height=${64} title="Clients" lines=${[demandLines(load).filter(Boolean).map((line) => line.text || line).join(", ")]} />
    <${Box} x=${1} y=${middle} width=${half - 1} height=${BOX} title=${gateway ? "Gateway" : "Service"} mark=${gateway && gateway.mark} lines=${gateway ? gatewayLines(gateway) : ["no gateway"]} />
    ${picker && html`<${Box} x=${half + 40} y=${middle} width=${half - 1} height=${BOX} tone="strong" title="Picker" mark=${picker.mark} lines=${pickerLines(picker)} />`}
    <${Group} x=${28} y=${start} width=${inner} title=${apart ? "Decode" : "Replicas"} group=${decode} none="No replicas" />
    ${apart && html`<${Group} x=${28} y=${below} width=${inner} title="Prefill" group=${prefill} />`}
  </svg>`;
}

export function Way({ service, tree, replicas }) {
  const frame = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const known = replicas ? facts(service, tree, replicas) : null;
  const Drawn = width < WIDE ? Down : Across;
  return html`<div class="way" ref=${frame} role="img" aria-label=${known ? words(service, known) : "Reading the metrics of the replicas"}>
    ${known && width > 0 ? html`<${Drawn} width=${width} facts=${known} />` : html`<p class="quiet">Reading the metrics of the replicas…</p>`}
  </div>`;
}
