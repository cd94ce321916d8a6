//! The headers that the picker reads and sets.

use std::{borrow::Cow, sync::LazyLock};

use bytes::Bytes;
use longboat_extproc::{Header, HeaderChanges, Headers, names};
use longboat_scheduler::{Decision, Resolution, VideoProperties};

use crate::metrics::MAX_VALUE_BYTES;

/// Headers that control the picker or that it sets itself. They are never echoed.
const OWN: &[&str] = &[
    "x-llm-d-inference-objective",
    "x-gateway-inference-objective",
    "x-llm-d-inference-fairness-id",
    "x-gateway-inference-fairness-id",
    "x-llm-d-model-name-rewrite",
    "x-gateway-model-name-rewrite",
    "x-llm-d-slo-ttft-ms",
    "x-slo-ttft-ms",
    "x-llm-d-slo-tpot-ms",
    "x-slo-tpot-ms",
    names::DESTINATION,
    names::DESTINATION_SUBSET,
    names::DESTINATION_SERVED,
    names::DROPPED_REASON,
    "content-length",
];

/// The path as the client sent it, from the first header that has it.
pub(super) fn path(headers: &Headers) -> &str {
    [":path", "x-original-path", "x-forwarded-path"]
        .into_iter()
        .find_map(|name| headers.get(name).filter(|path| !path.is_empty()))
        .unwrap_or("/v1/completions")
}

/// Returns the value of a control header under its present name, or else under its former name.
fn present_or_former<'a>(headers: &'a Headers, present: &str, former: &str) -> Option<&'a str> {
    headers.get(present).or_else(|| headers.get(former)).filter(|value| !value.is_empty())
}

/// The model that replaces the model in the body.
pub(super) fn model_rewrite(headers: &Headers) -> Option<&str> {
    present_or_former(headers, "x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")
}

/// The flow that the request names, for fairness.
pub(super) fn fairness(headers: &Headers) -> Option<&str> {
    present_or_former(headers, "x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
}

/// Returns a short name unchanged. A long name is replaced by its beginning and a hash, so that different flows stay different.
/// The limit exists because metrics and fairness policies keep names longer than the request.
pub(super) fn short(flow: Cow<'_, str>) -> Cow<'_, str> {
    use std::hash::{BuildHasher as _, RandomState};
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    if flow.len() <= MAX_VALUE_BYTES {
        return flow;
    }
    let beginning: String = flow.chars().take(32).collect();
    Cow::Owned(format!("{beginning}…{:016x}", HASHER.hash_one(&*flow)))
}

/// Returns the memory that headers need.
pub(super) fn size(headers: &Headers) -> usize {
    headers.iter().map(|header| size_of::<Header>() + header.name.len() + header.value.len()).sum()
}

/// The flow of requests that name none.
pub(super) const DEFAULT_FLOW: &str = "default-flow";

/// The response header with the endpoint that served. It is set only if the request asks for it.
pub(super) const SERVED: &str = "x-conformance-test-served-endpoint";

/// The objective that the request names.
pub(super) fn objective(headers: &Headers) -> Option<&str> {
    present_or_former(headers, "x-llm-d-inference-objective", "x-gateway-inference-objective")
}

/// The requested time to the first token, in milliseconds.
pub(super) fn first_token_within(headers: &Headers) -> Option<u64> {
    present_or_former(headers, "x-llm-d-slo-ttft-ms", "x-slo-ttft-ms")?.parse().ok()
}

/// What the request says about its videos.
pub(super) fn video(headers: &Headers) -> VideoProperties {
    let number = |name| headers.get(name).and_then(|value| value.parse().ok()).unwrap_or_default();
    let resolution = headers.get("x-llm-d-video-resolution").and_then(|size| {
        let (width, height) = size.split_once(['x', 'X'])?;
        Some(Resolution { width: width.trim().parse().ok()?, height: height.trim().parse().ok()? })
    });
    VideoProperties {
        resolution: resolution.unwrap_or_default(),
        seconds: number("x-llm-d-video-duration-seconds"),
        rate: number("x-llm-d-video-fps"),
    }
}

/// Whether the request has `prefer: if-available`: the client wants an answer only if the prompt's prefix is cached.
pub(super) fn only_if_cached(headers: &Headers) -> bool {
    headers.get("prefer").is_some_and(|value| value.trim().eq_ignore_ascii_case("if-available"))
}

/// The announced length of the body. 0 if the client did not announce one.
pub(super) fn content_length(headers: &Headers) -> usize {
    headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default()
}

/// The request id of the client or the proxy. Creates a new one if there is none.
pub(super) fn request_id(headers: &Headers) -> String {
    headers
        .get(REQUEST_ID)
        .filter(|id| !id.is_empty())
        .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

/// The header with the request's id. The client, the proxy, the model server and the picker all see the same id.
pub(super) const REQUEST_ID: &str = "x-request-id";

/// The header changes for the request to the model server.
pub(super) fn request_changes(
    received: &Headers,
    decision: &Decision,
    length: usize,
    request_id: &str,
) -> HeaderChanges {
    let mut set = Vec::with_capacity(received.0.len() + decision.set_headers.len() + 3);
    set.push(Header::new(names::DESTINATION, decision.destination.join(",")));
    if length > 0 {
        set.push(Header::new("Content-Length", length.to_string()));
    }
    for (name, value) in &decision.set_headers {
        set.push(Header::new(*name, value.clone()));
    }
    if received.get(REQUEST_ID).is_none_or(str::is_empty) {
        set.push(Header::new(REQUEST_ID, request_id.to_owned()));
    }
    let owned = |name: &Bytes| {
        OWN.iter()
            .chain(decision.set_headers.iter().map(|(name, _)| name))
            .chain(&decision.remove_headers)
            .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
    };
    echo_headers(received, owned, &mut set);
    HeaderChanges {
        set,
        remove: decision
            .remove_headers
            .iter()
            .filter(|name| received.get(name).is_some())
            .map(|name| (*name).to_owned())
            .collect(),
        // Envoy then matches the route again, by the headers that are set here.
        clear_route_cache: true,
    }
}

/// The header changes for the response to the client.
pub(super) fn response_changes(received: &Headers, extra: &[(String, String)]) -> HeaderChanges {
    let mut set = Vec::with_capacity(received.0.len() + extra.len() + 1);
    set.push(Header::new("x-went-into-resp-headers", "true"));
    for (name, value) in extra {
        set.push(Header::new(name.clone(), value.clone()));
    }
    let owned = |name: &Bytes| {
        name.eq_ignore_ascii_case(b"content-length")
            || extra.iter().any(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()))
    };
    echo_headers(received, owned, &mut set);
    HeaderChanges { set, ..HeaderChanges::default() }
}

/// Sets each received header again, because the reference does so and proxies and tests may rely on it. Skips a header with
/// several fields: setting the header would keep only one of them.
fn echo_headers(received: &Headers, owned: impl Fn(&Bytes) -> bool, set: &mut Vec<Header>) {
    let names: Vec<&Bytes> = received.iter().map(|header| &header.name).collect();
    for header in received {
        let fields = names.iter().filter(|name| name.eq_ignore_ascii_case(&header.name)).count();
        if fields == 1 && !owned(&header.name) {
            set.push(lower_case(header));
        }
    }
}

/// Proxies send names in lower case. This makes sure that the names are in lower case.
fn lower_case(header: &Header) -> Header {
    if header.name.iter().any(u8::is_ascii_uppercase) {
        Header::new(header.name.to_ascii_lowercase(), header.value.clone())
    } else {
        header.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_how_long_and_how_large_videos_are() {
        let said = |name: &'static str, value: &str| {
            let VideoProperties { resolution, seconds, rate } =
                video(&Headers(vec![Header::new(name, value.to_owned())]));
            (resolution.width, resolution.height, seconds, rate)
        };
        assert_eq!(said("x-llm-d-video-resolution", "1280 X720"), (1280, 720, 0.0, 0.0));
        assert_eq!(said("x-llm-d-video-resolution", "1280x"), (0, 0, 0.0, 0.0));
        assert_eq!(said("x-llm-d-video-duration-seconds", "2.5"), (0, 0, 2.5, 0.0));
        assert_eq!(said("x-llm-d-video-fps", "30"), (0, 0, 0.0, 30.0));
        assert_eq!(said("x-llm-d-video-fps", "many"), (0, 0, 0.0, 0.0));
    }
}
