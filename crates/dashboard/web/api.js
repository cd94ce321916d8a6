// Requests to the server. The token comes in the fragment of the page's address and is kept for this tab.

const fragment = new URLSearchParams(location.hash.slice(1));
if (fragment.has("token")) {
  sessionStorage.setItem("token", fragment.get("token"));
  history.replaceState(null, "", "/#/");
}

const headers = () => ({ authorization: `Bearer ${sessionStorage.getItem("token") || ""}` });

/// A response with an error status, with the server's message.
export class Refused extends Error {}

async function sentence(response) {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : error.message;
  } catch {
    return text.trim() || `the server answered ${response.status}`;
  }
}

export async function send(method, path, parameters, body, signal) {
  const query = new URLSearchParams(parameters);
  const response = await fetch(`/api/${path}?${query}`, { method, headers: headers(), body, signal });
  if (!response.ok) throw new Refused(await sentence(response));
  return response;
}

export const json = async (path, parameters) => (await send("GET", path, parameters)).json();
export const text = async (path, parameters) => (await send("GET", path, parameters)).text();

/// Reads server-sent events from a response: calls `each(name, data)` for every one.
export async function events(response, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let name = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) each(name, data);
    }
  }
}

/// Reads the feed until `signal`, and reconnects when it ends. Calls `state(null)` when connected, and `state(problem)` when
/// the connection fails.
export async function listen(service, signal, each, state) {
  while (!signal.aborted) {
    let problem = "the connection ended";
    try {
      const response = await send("GET", "feed", service ? { service } : {}, undefined, signal);
      state(null);
      await events(response, (name, data) => each(name, JSON.parse(data)));
    } catch (error) {
      problem = error instanceof Refused ? error.message : "Longboat does not answer: has it ended?";
    }
    if (signal.aborted) return;
    state(problem);
    await new Promise((done) => setTimeout(done, 1500));
  }
}
