// Colours for YAML. Returns nodes, never markup, so that a manifest cannot add elements to the page.

import { html } from "/vendor/htm-preact.js";

/// Longer texts stay plain, because each word of colour is a node.
const COLOURED = 60_000;
const LINE = /^(\s*(?:- +)*)(?:("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#"'&*!|>%@`{[\]},:-][^#:]*?|[\w./-]+)(:)(?=\s|$))?(.*)$/;
const QUOTED = /^(?:"(?:[^"\\]|\\.)*"|'[^']*')/;

function kind(value) {
  if (/^["']/.test(value)) return "string";
  if (/^(true|false|null|~)$/.test(value)) return "constant";
  if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(value)) return "number";
  return /^[|>][+-]?\d?$/.test(value) ? "mark-up" : "string";
}

function coloured(line) {
  if (/^\s*#/.test(line)) return html`<span class="comment">${line}</span>`;
  const [, indent, key, colon, rest] = LINE.exec(line) || [];
  if (rest === undefined) return line;
  const text = rest.trimStart();
  const quoted = QUOTED.exec(text);
  const comments = /\s#/.exec(text);
  const end = quoted ? quoted[0].length : comments ? comments.index : text.length;
  const [space, value, comment] = [rest.slice(0, rest.length - text.length), text.slice(0, end), text.slice(end)];
  return html`${indent}${key && html`<span class="key-name">${key}</span>`}${colon}${space}${value && html`<span class=${kind(value)}>${value}</span>`}${comment && html`<span class="comment">${comment}</span>`}`;
}

/// Returns a text with colours. The lines of a block scalar are one string.
export function highlighted(text) {
  if (text.length > COLOURED) return text;
  let block = null;
  return text.split("\n").map((line, index) => {
    const indent = line.search(/\S/);
    if (block !== null && (indent < 0 || indent > block)) return html`<span key=${index} class="string">${line}${"\n"}</span>`;
    block = /(:|-)\s+[|>][+-]?\d?\s*$/.test(line) ? indent : null;
    return html`<span key=${index}>${coloured(line)}${"\n"}</span>`;
  });
}
