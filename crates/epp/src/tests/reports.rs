//! Numbers about responses that are reported to the proxy.

use bytes::Bytes;
use longboat_extproc::{Action, Event, Headers, Reply};

use super::support::{self, Stream};

const REPORTER: &str = "
plugins:
- {type: request-attribute-reporter, parameters: {attributes: [{key: {name: cost}, expression: usage.total_tokens}]}}
- {name: second, type: request-attribute-reporter,
   parameters: {attributes: [{key: {namespace: billing, name: cached}, expression: usage.prompt_tokens_details.cached_tokens}]}}
";

const ANSWER: &[u8] =
    br#"{"usage":{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}}"#;

/// Sends a request and these parts of a response. Returns the replies to the parts.
fn answered(kind: &'static str, parts: &[&'static [u8]], trailers: bool) -> Vec<Reply> {
    let core = support::core(REPORTER);
    support::with_endpoints(&core, 1);
    let mut stream = Stream::open(&core);
    stream.request("/v1/completions", &[], br#"{"model":"m","prompt":"x"}"#, None);
    let mut headers = Headers::new();
    headers.push(":status", "200");
    headers.push("content-type", kind);
    let mut replies = stream.feed(Event::ResponseHeaders { headers, end_of_stream: false }).0;
    for (index, part) in parts.iter().enumerate() {
        let end_of_stream = !trailers && index + 1 == parts.len();
        let body = Bytes::from_static(part);
        replies.extend(stream.feed(Event::ResponseBody { body, end_of_stream }).0);
    }
    if trailers {
        replies.extend(stream.feed(Event::ResponseTrailers(Headers::new())).0);
    }
    replies
}

#[test]
fn the_proxy_is_told_at_the_end_of_a_response() {
    let sse: &[&[u8]] = &[b"data: 1\n\n", b"data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n", b"data: [DONE]\n\n"];
    for (kind, parts, trailers) in [
        ("application/json", &[ANSWER][..], false),
        ("application/json", &[ANSWER][..], true),
        ("text/event-stream", sse, false),
    ] {
        let mut replies = answered(kind, parts, trailers);
        let last = replies.pop().unwrap();
        assert_eq!(matches!(last.action, Action::ResponseTrailers(_)), trailers);
        assert_eq!(last.metadata.get("envoy.lb", "cost"), Some(&12.0.into()));
        assert_eq!(last.metadata.get("billing", "cached"), Some(&4.0.into()));
        assert!(replies.iter().all(|reply| reply.metadata.is_empty()), "{replies:?}");
    }
    let nothing = answered("application/json", &[b"{}"], false);
    assert!(nothing.iter().all(|reply| reply.metadata.is_empty()), "there is no usage");
}
