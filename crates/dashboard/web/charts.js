// A line chart over time, as SVG.

import { html, useState } from "/vendor/htm-preact.js";

const WIDTH = 460;
const HEIGHT = 190;
const LEFT = 56;
const TOP = 12;
const BOTTOM = 22;

/// Returns the smallest of 1, 2, 5, 10, 20, … times a power of ten that is not below `value`.
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });

/// The value of a series at a time: that of its nearest point.
function near(points, time) {
  let best = null;
  for (const point of points) if (best === null || Math.abs(point[0] - time) < Math.abs(best[0] - time)) best = point;
  return best && best[1];
}

/// Splits points where values are missing, so that no line joins what was not measured.
function pieces(points) {
  const found = [[]];
  for (const point of points) {
    if (point[1] === null) found.push([]);
    else found[found.length - 1].push(point);
  }
  return found.filter((piece) => piece.length > 0);
}

/// `series` are `{ name, points: [[time, value or null]] }`; `show` formats a value; `total` is a sentence about the span.
export function Chart({ title, total, series, show, span, end, named }) {
  const [at, setAt] = useState(null);
  const values = series.flatMap(({ points }) => points.map(([, value]) => value || 0));
  const top = ceiling(Math.max(0, ...values));
  const x = (time) => LEFT + (WIDTH - LEFT - 6) * Math.max(0, 1 - (end - time) / span);
  const y = (value) => TOP + (HEIGHT - BOTTOM - TOP) * (1 - value / top);
  const place = (points) => points.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const area = (points) => `${x(points[0][0]).toFixed(1)},${y(0)} ${place(points)} ${x(points[points.length - 1][0]).toFixed(1)},${y(0)}`;
  const last = series.map(({ name, points }) => [name, points.length > 0 ? points[points.length - 1][1] : null]);
  const said = last.slice(0, 5).map(([name, value]) => `${name} ${value === null ? "no value" : show(value)}`).join(", ");
  const moved = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - 6);
    setAt(part < 0 || part > 1 ? null : end - span * (1 - part));
  };
  const shown = at === null ? last : series.map(({ name, points }) => [name, near(points, at)]);
  return html`<figure class="chart">
    <figcaption>${title}
      <span class="total">${at === null ? total : clock(at)}</span>
    </figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}: ${said || "nothing yet"}"
      onPointerMove=${moved} onPointerLeave=${() => setAt(null)}>
      ${[0, 0.5, 1].map((part) => html`
        <line class=${part === 0 ? "axis" : "grid"} x1=${LEFT} x2=${WIDTH - 6} y1=${y(top * part)} y2=${y(top * part)} />
        <text x=${LEFT - 6} y=${y(top * part) + 4} text-anchor="end">${part === 0 ? "0" : show(top * part)}</text>`)}
      ${[1, 0.5, 0].map((part) => html`
        <text x=${x(end - span * part)} y=${HEIGHT - 6} text-anchor=${part === 1 ? "start" : part === 0 ? "end" : "middle"}>
          ${part === 0 ? "now" : `${span * part < 60_000 ? `${(span * part) / 1000} s` : `${(span * part) / 60_000} min`}${part === 1 ? " ago" : ""}`}</text>`)}
      ${series.map(({ name, points }, index) => pieces(points).map((piece) => html`
        ${series.length === 1 && html`<polygon class="area line${index}" points=${area(piece)} />`}
        <polyline key=${name} class="line line${index % 8}" points=${place(piece.length === 1 ? [[piece[0][0] - span / 90, piece[0][1]], piece[0]] : piece)} />`))}
      ${at !== null && html`<line class="cursor" x1=${x(at)} x2=${x(at)} y1=${TOP} y2=${HEIGHT - BOTTOM} />`}
      ${values.every((value) => value === 0) && series.every(({ points }) => points.every(([, value]) => value === null)) &&
        html`<text class="empty" x=${(WIDTH + LEFT) / 2} y=${HEIGHT / 2} text-anchor="middle">nothing yet</text>`}
    </svg>
    ${named && html`<p class="names">${shown.map(([name, value], index) => html`<span><span class="key line${index % 8}"></span> ${name} <b>${value === null ? "–" : show(value)}</b></span>`)}</p>`}
  </figure>`;
}
