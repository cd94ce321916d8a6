//! The used part of `envoy.service.ext_proc.v3`, declared by hand.
//!
//! Envoy's full definitions decode every header and chunk into its own allocation, and add 70,000 generated lines. These
//! definitions declare only the fields that Longboat uses; protobuf skips the others. Header fields and bodies are slices of
//! the received frame. Header names are `string` in Envoy's definitions and `bytes` here, which have the same encoding. The
//! tests compare these definitions with the full ones (`envoy-types`).

use std::collections::BTreeMap;

use bytes::Bytes;
use prost_types::Struct;

/// `envoy.config.core.v3.Metadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) filter_metadata: BTreeMap<String, Struct>,
}

/// `envoy.config.core.v3.HeaderValue`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HeaderValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) raw_value: Bytes,
}

/// `envoy.config.core.v3.HeaderMap`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<HeaderValue>,
}

/// `envoy.config.core.v3.HeaderValueOption`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<HeaderValue>,
    #[prost(int32, tag = "3")]
    pub(crate) append_action: i32,
}

/// `HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD`. It is always sent: the field's default is "append", and only the
/// deprecated `append` flag made ext_proc treat the default as "overwrite".
pub(crate) const OVERWRITE_IF_EXISTS_OR_ADD: i32 = 2;

/// `BodySendMode.FULL_DUPLEX_STREAMED`.
pub(crate) const FULL_DUPLEX_STREAMED: i32 = 4;

/// `ProtocolConfiguration`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct ProtocolConfiguration {
    #[prost(int32, tag = "1")]
    pub(crate) request_body_mode: i32,
    #[prost(int32, tag = "2")]
    pub(crate) response_body_mode: i32,
}

/// `ProcessingRequest`, which a proxy sends.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProcessingRequest {
    #[prost(message, optional, tag = "8")]
    pub(crate) metadata_context: Option<Metadata>,
    #[prost(message, optional, tag = "11")]
    pub(crate) protocol_config: Option<ProtocolConfiguration>,
    #[prost(oneof = "EventKind", tags = "2, 3, 4, 5, 6, 7")]
    pub(crate) request: Option<EventKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum EventKind {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    #[prost(message, tag = "6")]
    RequestTrailers(HttpTrailers),
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

/// `HttpHeaders`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(crate) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(crate) end_of_stream: bool,
}

/// `HttpBody`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) body: Bytes,
    #[prost(bool, tag = "2")]
    pub(crate) end_of_stream: bool,
}

/// `HttpTrailers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HttpTrailers {
    #[prost(message, optional, tag = "1")]
    pub(crate) trailers: Option<HeaderMap>,
}

/// `ProcessingResponse`, which a processor sends.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProcessingResponse {
    #[prost(message, optional, tag = "8")]
    pub(crate) dynamic_metadata: Option<Struct>,
    #[prost(oneof = "ActionKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) response: Option<ActionKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum ActionKind {
    #[prost(message, tag = "1")]
    RequestHeaders(CommonWrapper),
    #[prost(message, tag = "2")]
    ResponseHeaders(CommonWrapper),
    #[prost(message, tag = "3")]
    RequestBody(CommonWrapper),
    #[prost(message, tag = "4")]
    ResponseBody(CommonWrapper),
    #[prost(message, tag = "5")]
    RequestTrailers(TrailersResponse),
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersResponse),
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// `HeadersResponse` and `BodyResponse`, which have the same shape.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct CommonWrapper {
    #[prost(message, optional, tag = "1")]
    pub(crate) response: Option<CommonResponse>,
}

/// `CommonResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct CommonResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) header_mutation: Option<HeaderMutation>,
    #[prost(message, optional, tag = "3")]
    pub(crate) body_mutation: Option<BodyMutation>,
    #[prost(bool, tag = "5")]
    pub(crate) clear_route_cache: bool,
}

/// `TrailersResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TrailersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header_mutation: Option<HeaderMutation>,
}

/// `HeaderMutation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HeaderMutation {
    #[prost(message, repeated, tag = "1")]
    pub(crate) set_headers: Vec<HeaderValueOption>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) remove_headers: Vec<String>,
}

/// `BodyMutation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BodyMutation {
    #[prost(oneof = "Mutation", tags = "1, 2, 3")]
    pub(crate) mutation: Option<Mutation>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum Mutation {
    #[prost(bytes = "bytes", tag = "1")]
    Body(Bytes),
    #[prost(bool, tag = "2")]
    ClearBody(bool),
    #[prost(message, tag = "3")]
    Streamed(HttpBody),
}

/// `ImmediateResponse`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<HttpStatus>,
    #[prost(message, optional, tag = "2")]
    pub(crate) headers: Option<HeaderMutation>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) body: Bytes,
    #[prost(string, tag = "5")]
    pub(crate) details: String,
}

/// `envoy.type.v3.HttpStatus`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
}
