//! Reads the response to a proof request, and decides which part it comes from: gateway, picker or engine.

use longboat_api::{annotations::SERVING_PROOF, reasons::condition as reason};
use serde_json::{Value, json};

use super::{probe::Probe, verdict::Verdict};

/// The most bytes of a response that are read.
pub const MAX_RESPONSE_BYTES: usize = 256 << 10;
/// The most characters of a response that a condition quotes.
const MAX_QUOTE_CHARS: usize = 200;

/// A response, with any status code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status code.
    pub code: u16,
    /// Its body, or the beginning of it.
    pub body: Vec<u8>,
}

/// Why there is no response. Each variant has the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// The connection is refused or fails.
    Connection(String),
    /// The certificate of the server is not trusted.
    Certificate(String),
    /// The configured CA certificates cannot be read.
    Trust(String),
    /// The server accepted the request and did not respond within this number of seconds.
    Silence(u64),
    /// The connection broke before the response was complete.
    Broken(String),
}

/// A response with a token.
pub(super) struct TokenResponse {
    pub(super) verdict: Verdict,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
}

/// Whether the engines respond at the addresses of their pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engines {
    /// At least one engine responds.
    Answer,
    /// None of the engines that were asked responds.
    Silent,
    /// No engine was asked.
    Unknown,
}

/// Returns the received token, or the verdict that says what broke.
pub(super) fn judge(
    probe: &Probe,
    answer: &Result<Answer, ProbeError>,
    engines: Engines,
) -> Result<TokenResponse, Verdict> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(unreached) => return Err(unreachable(probe, unreached, engines)),
    };
    let body = &answer.body[..answer.body.len().min(MAX_RESPONSE_BYTES)];
    if answer.code == 200 { completion(probe, body) } else { Err(refusal(probe, answer.code, body, engines)) }
}

fn unreachable(probe: &Probe, why: &ProbeError, engines: Engines) -> Verdict {
    let url = &probe.url;
    match why {
        ProbeError::Connection(why) => Verdict::no(
            reason::GATEWAY_UNREACHABLE,
            format!(
                "the gateway does not answer at {url}: {why}. Check the pods, the Service and the address \
                 of the Gateway, and whether the controller can reach it"
            ),
        ),
        ProbeError::Certificate(why) => Verdict::no(
            reason::GATEWAY_NOT_TRUSTED,
            format!("the certificate of the gateway at {url} is not trusted: {why}. {}", probe.trust_hint),
        ),
        ProbeError::Trust(why) => Verdict::no(
            reason::GATEWAY_NOT_TRUSTED,
            format!("the CA certificates for {url} are invalid: {why}. {}", probe.trust_hint),
        ),
        ProbeError::Silence(seconds) => {
            let who = match engines {
                Engines::Silent => {
                    "the engines do not answer at their pods either: check their logs and devices"
                }
                Engines::Answer => {
                    "the engines answer other requests at their pods, so an engine, the picker or the \
                     sidecar blocks the request"
                }
                Engines::Unknown => "check the picker, then the engines",
            };
            Verdict::no(
                reason::NO_ANSWER,
                format!(
                    "the gateway accepted a request at {url}, but did not answer within {seconds} s; {who}"
                ),
            )
        }
        ProbeError::Broken(why) => Verdict::no(
            reason::NO_ANSWER,
            format!(
                "the response from {url} was cut off: {why}. Check the logs of the gateway and of the \
                 engines"
            ),
        ),
    }
}

/// Judges a response with another status than 200.
fn refusal(probe: &Probe, code: u16, body: &[u8], engines: Engines) -> Verdict {
    let (url, model) = (&probe.url, &probe.model);
    let text = String::from_utf8_lossy(body);
    let quoted = match quote(&text) {
        quoted if quoted.is_empty() => String::new(),
        quoted => format!(" ({quoted})"),
    };
    // Engines respond to errors with JSON objects, gateways with text or an empty body. Envoy passes on a picker's text, and
    // Longboat's gateway puts it into an object, as it does with its own.
    let is_refusal = text.contains("inference error:");
    let is_engines = !is_refusal
        && !text.contains("longboat gateway:")
        && serde_json::from_slice::<Value>(body)
            .is_ok_and(|body| body.get("error").is_some() || body["object"] == "error");
    let is_pickers = is_refusal || text.contains("picker");
    let is_without_key =
        serde_json::from_slice::<Value>(body).is_ok_and(|body| body == json!({"error": "Unauthorized"}));
    match code {
        // vLLM's words.
        401 if is_without_key => Verdict::no(
            reason::CREDENTIALS_REQUIRED,
            format!(
                "the engine answered 401 at {url}: it asks for an API key (--api-key, VLLM_API_KEY), and the proof sends none. Turn the \
                 proof off for this service (annotation {SERVING_PROOF}: off), or let the gateway ask for keys in place of the engine"
            ),
        ),
        401 | 403 => Verdict::no(
            reason::CREDENTIALS_REQUIRED,
            format!(
                "{url} answered {code}{quoted}: the route asks for credentials, but the proof sends none. \
                 Allow requests of the controller without credentials, or turn the proof off for this \
                 service"
            ),
        ),
        404 if is_engines => Verdict::no(
            reason::MODEL_NOT_SERVED,
            format!(
                "the engine does not serve a model named {model}{quoted}: compare --served-model-name of the engine with \
                 spec.model.name"
            ),
        ),
        404 | 405 => Verdict::no(
            reason::NO_ROUTE,
            format!(
                "the gateway has no route for {url}{quoted}: check the rules, hostnames and parentRefs of \
                 the HTTPRoute"
            ),
        ),
        400..500 if is_pickers && code != 400 => picker(url, code, &quoted),
        400..500 => Verdict::no(
            reason::REQUEST_REFUSED,
            format!("{url} refused a request for one token with {code}{quoted}"),
        ),
        _ if is_engines => engine(url, code, &quoted),
        _ if is_pickers => picker(url, code, &quoted),
        _ => match engines {
            Engines::Silent => engine(url, code, &quoted),
            Engines::Answer | Engines::Unknown => picker(url, code, &quoted),
        },
    }
}

fn picker(url: &str, code: u16, quoted: &str) -> Verdict {
    Verdict::no(
        reason::PICKER_FAILED,
        format!(
            "{url} answered {code}{quoted}: the picker returned no endpoint that the gateway can use. Check \
             the logs of the picker, and the pods that the InferencePool selects"
        ),
    )
}

fn engine(url: &str, code: u16, quoted: &str) -> Verdict {
    Verdict::no(
        reason::ENGINE_FAILED,
        format!("the engine failed: {url} answered {code}{quoted}. Check the logs of container main"),
    )
}

/// Judges a response with status 200.
fn completion(probe: &Probe, body: &[u8]) -> Result<TokenResponse, Verdict> {
    let url = &probe.url;
    let Ok(Value::Object(answer)) = serde_json::from_slice(body) else {
        let quoted = quote(&String::from_utf8_lossy(body));
        return Err(Verdict::no(
            reason::UNREADABLE_ANSWER,
            format!(
                "{url} answered 200, but the response is not a completion ({quoted}): the route leads to \
                 another server"
            ),
        ));
    };
    let named = answer.get("model").and_then(Value::as_str).unwrap_or_default();
    if !probe.names.iter().any(|name| name == named) {
        let named = if named.is_empty() { "without a name".to_owned() } else { quote(named) };
        return Err(Verdict::no(
            reason::WRONG_MODEL,
            format!(
                "a request to {url} for model {} was answered by a model {named}: compare \
                 --served-model-name of the engine with spec.model.name, and check whether another route \
                 matches these requests",
                probe.model
            ),
        ));
    }
    let count = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
    let usage = answer.get("usage");
    let generated = count(usage.and_then(|usage| usage.get("completion_tokens")));
    let text = answer.get("choices").and_then(|all| all.get(0)?.get("text")?.as_str()).unwrap_or_default();
    if generated == 0 && text.is_empty() {
        return Err(Verdict::no(
            reason::NO_TOKEN,
            format!("{url} answered 200 without a token: check the logs of container main"),
        ));
    }
    Ok(TokenResponse {
        verdict: Verdict::yes(
            reason::TOKEN_RECEIVED,
            format!("{url} answered with a token of model {named}"),
        ),
        prompt_tokens: count(usage.and_then(|usage| usage.get("prompt_tokens"))),
        cached_tokens: count(
            usage.and_then(|usage| usage.get("prompt_tokens_details")?.get("cached_tokens")),
        ),
    })
}

/// The beginning of a foreign text, in one line.
pub(super) fn quote(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
