// A line chart over time, as SVG.

import { html } from "/vendor/htm-preact.js";

const WIDTH = 320;
const HEIGHT = 110;
const LEFT = 38;
const BOTTOM = 16;
/// The time spans that graphs may show, in minutes.
const SPANS = [1, 2, 5];

/// Returns the smallest of 1, 2, 5, 10, 20, … that is not below `value`.
function ceiling(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

/// Formats 1500 as 1.5k, because the axis is narrow.
const short = (value) => (value < 1000 ? value : value < 1e6 ? `${value / 1e3}k` : `${value / 1e6}M`);

/// Returns the time span that graphs show, in milliseconds, if the first point is from `begin`.
export function spanFrom(begin) {
  const minutes = SPANS.find((one) => one * 60_000 >= Date.now() - begin) || SPANS[SPANS.length - 1];
  return minutes * 60_000;
}

export function Chart({ title, unit, series, span }) {
  const end = Date.now();
  const values = series.flatMap(({ points }) => points.map(([, value]) => value));
  const top = ceiling(Math.max(0, ...values));
  const x = (at) => LEFT + (WIDTH - LEFT - 4) * Math.max(0, 1 - (end - at) / span);
  const y = (value) => 6 + (HEIGHT - BOTTOM - 6) * (1 - value / top);
  const line = (points) => points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const last = series.filter(({ points }) => points.length > 0).map(({ name, points }) => `${name} ${Math.round(points[points.length - 1][1] * 10) / 10}`);
  const said = last.length > 0 ? last.slice(0, 5).join(", ") : "nothing yet";
  return html`<figure>
    <figcaption>${title} <span class="quiet">${unit}</span></figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title} in ${unit}: ${said}">
      <line class="axis" x1=${LEFT} x2=${WIDTH} y1=${y(0)} y2=${y(0)} />
      <line class="grid" x1=${LEFT} x2=${WIDTH} y1=${y(top)} y2=${y(top)} />
      <text x=${LEFT - 4} y=${y(top) + 4} text-anchor="end">${short(top)}</text>
      <text x=${LEFT - 4} y=${y(0) + 3} text-anchor="end">0</text>
      <text x=${LEFT} y=${HEIGHT - 3}>${span / 60_000} min ago</text>
      <text x=${WIDTH - 2} y=${HEIGHT - 3} text-anchor="end">now</text>
      ${series.map(({ name, points }, index) => points.length > 0 && html`<polyline key=${name} class="line line${index % 8}"
        points=${line(points.length === 1 ? [points[0], [end, points[0][1]]] : points)} />`)}
    </svg>
  </figure>`;
}
