//! The messages of an exchange, and their translation to and from the wire.

use bytes::Bytes;

use crate::{
    headers::{Header, HeaderChanges, Headers},
    metadata::Metadata,
    wire,
};

/// The longest body chunk of a reply. Envoy accepts at most 64 KiB per streamed body message, and the llm-d endpoint picker
/// sends at most this many bytes. Longer bodies are split when they are sent.
pub const MAX_BODY_CHUNK: usize = 62_000;

/// The events of one HTTP request, in order: first the request, then the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The request's headers, pseudo-headers included.
    RequestHeaders {
        /// The fields.
        headers: Headers,
        /// Whether there is neither a body nor trailers.
        end_of_stream: bool,
    },
    /// A chunk of the request's body.
    RequestBody {
        /// The bytes; they may be empty if `end_of_stream` is set.
        body: Bytes,
        /// Whether this is the last message of the request. Never set if trailers follow.
        end_of_stream: bool,
    },
    /// The request's trailers, which end it.
    RequestTrailers(Headers),
    /// The response's headers, with `:status`.
    ResponseHeaders {
        /// The fields.
        headers: Headers,
        /// Whether there is neither a body nor trailers.
        end_of_stream: bool,
    },
    /// A chunk of the response's body.
    ResponseBody {
        /// The bytes; they may be empty if `end_of_stream` is set.
        body: Bytes,
        /// Whether this is the last message of the response. Never set if trailers follow.
        end_of_stream: bool,
    },
    /// The response's trailers, which end it.
    ResponseTrailers(Headers),
}

/// An event with the metadata that came with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Incoming {
    /// The event.
    pub event: Event,
    /// Forwarded metadata: the subset hint in a request, the served endpoint in a response.
    pub metadata: Option<Metadata>,
}

impl From<Event> for Incoming {
    fn from(event: Event) -> Self {
        Self { event, metadata: None }
    }
}

/// The answers of a processor. Each direction has one header action, then body chunks, then trailers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Continue with these changes to the request headers.
    RequestHeaders(HeaderChanges),
    /// The next chunk of the request body to send on.
    RequestBody {
        /// The bytes.
        body: Bytes,
        /// Whether the body ends here.
        end_of_stream: bool,
    },
    /// The next chunk of the request body goes on as it came.
    RequestBodyUnchanged,
    /// Continue with these changes to the request trailers.
    RequestTrailers(HeaderChanges),
    /// Continue with these changes to the response headers.
    ResponseHeaders(HeaderChanges),
    /// The next chunk of the response body to send on.
    ResponseBody {
        /// The bytes.
        body: Bytes,
        /// Whether the body ends here.
        end_of_stream: bool,
    },
    /// The next chunk of the response body goes on as it came.
    ResponseBodyUnchanged,
    /// Continue with these changes to the response trailers.
    ResponseTrailers(HeaderChanges),
    /// Answer the client with this response, and end the request.
    Immediate(ImmediateResponse),
}

/// A response that the processor itself creates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImmediateResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderChanges,
    /// Its body.
    pub body: Bytes,
    /// Text for the proxy's access log.
    pub details: String,
}

/// An action with the metadata that it sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The action.
    pub action: Action,
    /// Metadata for the proxy, including the chosen endpoint.
    pub metadata: Metadata,
}

impl From<Action> for Reply {
    fn from(action: Action) -> Self {
        Self { action, metadata: Metadata::default() }
    }
}

// === wire: events ===

impl Incoming {
    /// Returns `None` for a message of an unknown kind.
    pub(crate) fn from_wire(message: wire::ProcessingRequest) -> Option<Self> {
        use wire::EventKind;
        let event = match message.request? {
            EventKind::RequestHeaders(wire::HttpHeaders { headers, end_of_stream }) => {
                Event::RequestHeaders { headers: read(headers), end_of_stream }
            }
            EventKind::ResponseHeaders(wire::HttpHeaders { headers, end_of_stream }) => {
                Event::ResponseHeaders { headers: read(headers), end_of_stream }
            }
            EventKind::RequestBody(chunk) => {
                Event::RequestBody { body: chunk.body, end_of_stream: chunk.end_of_stream }
            }
            EventKind::ResponseBody(chunk) => {
                Event::ResponseBody { body: chunk.body, end_of_stream: chunk.end_of_stream }
            }
            EventKind::RequestTrailers(trailers) => Event::RequestTrailers(read(trailers.trailers)),
            EventKind::ResponseTrailers(trailers) => Event::ResponseTrailers(read(trailers.trailers)),
        };
        Some(Self { event, metadata: message.metadata_context.map(Metadata::from_filter_metadata) })
    }

    pub(crate) fn into_wire(self, first: bool) -> wire::ProcessingRequest {
        use wire::EventKind;
        let request = match self.event {
            Event::RequestHeaders { headers, end_of_stream } => {
                EventKind::RequestHeaders(wire::HttpHeaders { headers: Some(write(headers)), end_of_stream })
            }
            Event::ResponseHeaders { headers, end_of_stream } => {
                EventKind::ResponseHeaders(wire::HttpHeaders { headers: Some(write(headers)), end_of_stream })
            }
            Event::RequestBody { body, end_of_stream } => {
                EventKind::RequestBody(wire::HttpBody { body, end_of_stream })
            }
            Event::ResponseBody { body, end_of_stream } => {
                EventKind::ResponseBody(wire::HttpBody { body, end_of_stream })
            }
            Event::RequestTrailers(trailers) => {
                EventKind::RequestTrailers(wire::HttpTrailers { trailers: Some(write(trailers)) })
            }
            Event::ResponseTrailers(trailers) => {
                EventKind::ResponseTrailers(wire::HttpTrailers { trailers: Some(write(trailers)) })
            }
        };
        wire::ProcessingRequest {
            metadata_context: self.metadata.map(Metadata::into_filter_metadata),
            // Like Envoy, the client sends the configuration once, in the first message.
            protocol_config: first.then_some(wire::ProtocolConfiguration {
                request_body_mode: wire::FULL_DUPLEX_STREAMED,
                response_body_mode: wire::FULL_DUPLEX_STREAMED,
            }),
            request: Some(request),
        }
    }
}

fn read(map: Option<wire::HeaderMap>) -> Headers {
    map.unwrap_or_default().headers.into_iter().map(read_value).collect()
}

fn read_value(header: wire::HeaderValue) -> Header {
    // Envoy fills `raw_value` (any bytes) and leaves `value` empty. Older proxies do the opposite.
    Header {
        name: header.key,
        value: if header.raw_value.is_empty() { header.value } else { header.raw_value },
    }
}

fn write(headers: Headers) -> wire::HeaderMap {
    wire::HeaderMap { headers: headers.0.into_iter().map(write_value).collect() }
}

fn write_value(header: Header) -> wire::HeaderValue {
    wire::HeaderValue { key: header.name, value: Bytes::new(), raw_value: header.value }
}

// === wire: actions ===

impl Reply {
    /// Returns `None` for a message that has no known effect or violates the protocol.
    pub(crate) fn from_wire(message: wire::ProcessingResponse) -> Option<Self> {
        use wire::ActionKind;
        let action = match message.response? {
            ActionKind::RequestHeaders(common) => Action::RequestHeaders(header_part(common)),
            ActionKind::ResponseHeaders(common) => Action::ResponseHeaders(header_part(common)),
            // Not replies of this mode, but a picker that changes no body may give them, and they can only mean one thing.
            ActionKind::RequestBody(common) if !has_body(&common) => Action::RequestBodyUnchanged,
            ActionKind::RequestBody(common) => {
                let (body, end_of_stream) = body_part(common);
                Action::RequestBody { body, end_of_stream }
            }
            ActionKind::ResponseBody(common) if !has_body(&common) => Action::ResponseBodyUnchanged,
            ActionKind::ResponseBody(common) => {
                let (body, end_of_stream) = body_part(common);
                Action::ResponseBody { body, end_of_stream }
            }
            ActionKind::RequestTrailers(trailers) => {
                Action::RequestTrailers(read_changes(trailers.header_mutation, false))
            }
            ActionKind::ResponseTrailers(trailers) => {
                Action::ResponseTrailers(read_changes(trailers.header_mutation, false))
            }
            ActionKind::Immediate(immediate) => Action::Immediate(ImmediateResponse {
                status: immediate.status.and_then(|status| u16::try_from(status.code).ok()).unwrap_or(500),
                headers: read_changes(immediate.headers, false),
                body: immediate.body,
                details: immediate.details,
            }),
        };
        Some(Self {
            action,
            metadata: message.dynamic_metadata.map(Metadata::from_struct).unwrap_or_default(),
        })
    }

    /// Returns the memory of names, values and bodies.
    pub(crate) fn size(&self) -> usize {
        let action = match &self.action {
            Action::RequestBody { body, .. } | Action::ResponseBody { body, .. } => body.len(),
            Action::RequestBodyUnchanged | Action::ResponseBodyUnchanged => 0,
            Action::RequestHeaders(changes)
            | Action::ResponseHeaders(changes)
            | Action::RequestTrailers(changes)
            | Action::ResponseTrailers(changes) => changes.size(),
            Action::Immediate(immediate) => {
                immediate.headers.size() + immediate.body.len() + immediate.details.len()
            }
        };
        action + self.metadata.size()
    }

    pub(crate) fn into_wire(self) -> wire::ProcessingResponse {
        use wire::ActionKind;
        let response = match self.action {
            Action::RequestHeaders(changes) => ActionKind::RequestHeaders(header_response(changes)),
            Action::ResponseHeaders(changes) => ActionKind::ResponseHeaders(header_response(changes)),
            Action::RequestBody { body, end_of_stream } => {
                ActionKind::RequestBody(body_response(body, end_of_stream))
            }
            Action::ResponseBody { body, end_of_stream } => {
                ActionKind::ResponseBody(body_response(body, end_of_stream))
            }
            Action::RequestBodyUnchanged => ActionKind::RequestBody(common(wire::CommonResponse::default())),
            Action::ResponseBodyUnchanged => {
                ActionKind::ResponseBody(common(wire::CommonResponse::default()))
            }
            Action::RequestTrailers(changes) => ActionKind::RequestTrailers(wire::TrailersResponse {
                header_mutation: write_changes(changes),
            }),
            Action::ResponseTrailers(changes) => ActionKind::ResponseTrailers(wire::TrailersResponse {
                header_mutation: write_changes(changes),
            }),
            Action::Immediate(immediate) => ActionKind::Immediate(wire::ImmediateResponse {
                status: Some(wire::HttpStatus { code: i32::from(immediate.status) }),
                headers: write_changes(immediate.headers),
                body: immediate.body,
                details: immediate.details,
            }),
        };
        wire::ProcessingResponse {
            dynamic_metadata: (!self.metadata.is_empty()).then(|| self.metadata.into_struct()),
            response: Some(response),
        }
    }
}

fn header_part(wrapper: wire::CommonWrapper) -> HeaderChanges {
    let common = wrapper.response.unwrap_or_default();
    read_changes(common.header_mutation, common.clear_route_cache)
}

fn common(response: wire::CommonResponse) -> wire::CommonWrapper {
    wire::CommonWrapper { response: Some(response) }
}

fn has_body(wrapper: &wire::CommonWrapper) -> bool {
    wrapper.response.as_ref().is_some_and(|common| common.body_mutation.is_some())
}

fn body_part(wrapper: wire::CommonWrapper) -> (Bytes, bool) {
    match wrapper.response.and_then(|common| common.body_mutation).and_then(|body| body.mutation) {
        Some(wire::Mutation::Streamed(chunk)) => (chunk.body, chunk.end_of_stream),
        // Not valid in this mode, so treated as a chunk that does not end the body.
        Some(wire::Mutation::Body(body)) => (body, false),
        Some(wire::Mutation::ClearBody(_)) | None => (Bytes::new(), false),
    }
}

fn read_changes(mutation: Option<wire::HeaderMutation>, clear_route_cache: bool) -> HeaderChanges {
    let mutation = mutation.unwrap_or_default();
    HeaderChanges {
        set: mutation.set_headers.into_iter().filter_map(|option| option.header).map(read_value).collect(),
        remove: mutation.remove_headers,
        clear_route_cache,
    }
}

fn write_changes(changes: HeaderChanges) -> Option<wire::HeaderMutation> {
    if changes.set.is_empty() && changes.remove.is_empty() {
        return None;
    }
    let set = changes.set.into_iter().map(|header| wire::HeaderValueOption {
        header: Some(write_value(header)),
        append_action: wire::OVERWRITE_IF_EXISTS_OR_ADD,
    });
    Some(wire::HeaderMutation { set_headers: set.collect(), remove_headers: changes.remove })
}

fn header_response(changes: HeaderChanges) -> wire::CommonWrapper {
    let clear_route_cache = changes.clear_route_cache;
    let header_mutation = write_changes(changes);
    common(wire::CommonResponse { header_mutation, clear_route_cache, ..Default::default() })
}

fn body_response(body: Bytes, end_of_stream: bool) -> wire::CommonWrapper {
    let mutation = Some(wire::Mutation::Streamed(wire::HttpBody { body, end_of_stream }));
    common(wire::CommonResponse {
        body_mutation: Some(wire::BodyMutation { mutation }),
        ..Default::default()
    })
}
