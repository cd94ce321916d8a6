// The keyboard: what each key does, and the help that lists them.

import { html, useEffect, useRef } from "/vendor/htm-preact.js";

/// Returns whether a person is typing a text.
const typing = (element) => element.closest("input, textarea, select, dialog");

/// Calls the action of a key. `actions` are `[key, action, meaning]`.
export function useKeys(actions) {
  const newest = useRef(actions);
  newest.current = actions;
  useEffect(() => {
    const typed = (event) => {
      if (event.key === "Escape" && event.target.closest("input, textarea, select")) event.target.blur();
      if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      const found = newest.current.find(([key]) => key === event.key);
      if (!found) return;
      event.preventDefault();
      found[1]();
    };
    addEventListener("keydown", typed);
    return () => removeEventListener("keydown", typed);
  }, []);
}

/// The help, as a dialog that takes the focus and gives it back.
export function Help({ actions, close }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="help">
    <h2 id="help">Keyboard</h2>
    <dl class="keys">
      ${actions.map(([key, , meaning]) => html`<dt><kbd>${key}</kbd></dt><dd>${meaning}</dd>`)}
      <dt><kbd>Esc</kbd></dt><dd>leave a text field, or close this help</dd>
      <dt><kbd>Tab</kbd> <kbd>Enter</kbd></dt><dd>go to the next link or button, and use it</dd>
    </dl>
    <button autofocus onClick=${() => dialog.current.close()}>Close</button>
  </dialog>`;
}
