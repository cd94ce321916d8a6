//! Tests that the hand-written messages have the same encoding as Envoy's full definitions.

use bytes::Bytes;
use envoy_types::pb::{
    envoy::{
        config::core::v3::{HeaderMap, HeaderValue, HeaderValueOption, Metadata as EnvoyMetadata},
        service::ext_proc::v3::{
            self as envoy, ProcessingRequest, ProcessingResponse, body_mutation::Mutation,
            processing_request::Request, processing_response::Response,
        },
    },
    google::protobuf::{ListValue, Struct, Value as EnvoyValue, value::Kind},
};
use prost::Message as _;
use serde_json::json;

use crate::{
    Action, Event, Header, HeaderChanges, Headers, ImmediateResponse, Incoming, Metadata, Reply, names, wire,
};

/// Returns the request as Envoy reads it, and the result of reading Envoy's encoding of it back.
fn via_envoy_request(incoming: Incoming) -> (ProcessingRequest, Incoming) {
    let ours = incoming.into_wire(true).encode_to_vec();
    let theirs = ProcessingRequest::decode(ours.as_slice()).unwrap();
    let back = wire::ProcessingRequest::decode(theirs.encode_to_vec().as_slice()).unwrap();
    (theirs, Incoming::from_wire(back).unwrap())
}

fn via_envoy_response(reply: Reply) -> (ProcessingResponse, Reply) {
    let ours = reply.into_wire().encode_to_vec();
    let theirs = ProcessingResponse::decode(ours.as_slice()).unwrap();
    let back = wire::ProcessingResponse::decode(theirs.encode_to_vec().as_slice()).unwrap();
    (theirs, Reply::from_wire(back).unwrap())
}

fn headers() -> Headers {
    let mut headers = Headers::new();
    headers.push(":path", "/v1/chat/completions");
    headers.push("x-bytes", Bytes::from_static(&[0xff, 0x00]));
    headers
}

#[test]
fn every_event_is_what_envoy_means_by_it() {
    let body = Bytes::from_static(b"chunk");
    let events = [
        Event::RequestHeaders { headers: headers(), end_of_stream: true },
        Event::RequestBody { body: body.clone(), end_of_stream: false },
        Event::RequestTrailers(headers()),
        Event::ResponseHeaders { headers: headers(), end_of_stream: false },
        Event::ResponseBody { body, end_of_stream: true },
        Event::ResponseTrailers(headers()),
    ];
    for event in events {
        let incoming = Incoming::from(event);
        let (theirs, back) = via_envoy_request(incoming.clone());
        assert_eq!(back, incoming);
        let modes = theirs.protocol_config.unwrap();
        assert_eq!((modes.request_body_mode, modes.response_body_mode), (4, 4));
        match (theirs.request.unwrap(), &incoming.event) {
            (Request::RequestHeaders(got), Event::RequestHeaders { .. }) => {
                assert!(got.end_of_stream);
                let map = got.headers.unwrap();
                assert_eq!(map.headers[0].key, ":path");
                assert_eq!(map.headers[1].raw_value, [0xff, 0x00]);
            }
            (Request::RequestBody(got), Event::RequestBody { .. }) => assert_eq!(got.body, b"chunk"),
            (Request::ResponseBody(got), Event::ResponseBody { .. }) => assert!(got.end_of_stream),
            (Request::RequestTrailers(_), Event::RequestTrailers(_))
            | (Request::ResponseHeaders(_), Event::ResponseHeaders { .. })
            | (Request::ResponseTrailers(_), Event::ResponseTrailers(_)) => {}
            (got, sent) => panic!("{sent:?} became {got:?}"),
        }
    }
}

#[test]
fn every_action_is_what_envoy_means_by_it() {
    let changes = HeaderChanges {
        set: vec![Header::new(names::DESTINATION, "10.0.0.1:8000")],
        remove: vec!["x-gone".to_owned()],
        clear_route_cache: false,
    };
    let body = Bytes::from_static(b"chunk");
    let actions = [
        Action::RequestHeaders(HeaderChanges { clear_route_cache: true, ..changes.clone() }),
        Action::RequestBody { body: body.clone(), end_of_stream: true },
        Action::RequestTrailers(changes.clone()),
        Action::ResponseHeaders(changes.clone()),
        Action::ResponseBody { body, end_of_stream: false },
        Action::RequestBodyUnchanged,
        Action::ResponseBodyUnchanged,
        Action::ResponseTrailers(changes.clone()),
        Action::Immediate(ImmediateResponse {
            status: 429,
            headers: changes,
            body: Bytes::from_static(b"no"),
            details: "why".to_owned(),
        }),
    ];
    for action in actions {
        let reply = Reply::from(action);
        let (theirs, back) = via_envoy_response(reply.clone());
        assert_eq!(back, reply);
        match theirs.response.unwrap() {
            Response::RequestHeaders(got) => {
                let common = got.response.unwrap();
                assert!(common.clear_route_cache);
                let mutation = common.header_mutation.unwrap();
                // OVERWRITE_IF_EXISTS_OR_ADD
                assert_eq!(mutation.set_headers[0].append_action, 2);
                assert_eq!(mutation.remove_headers, ["x-gone"]);
            }
            Response::RequestBody(got) if back.action == Action::RequestBodyUnchanged => {
                assert!(got.response.unwrap().body_mutation.is_none());
            }
            Response::RequestBody(got) => {
                let mutation = got.response.unwrap().body_mutation.unwrap().mutation.unwrap();
                let Mutation::StreamedResponse(chunk) = mutation else {
                    panic!("{mutation:?}");
                };
                assert!(chunk.end_of_stream && chunk.body == b"chunk");
            }
            Response::ImmediateResponse(got) => {
                assert_eq!(got.status.unwrap().code, 429);
                assert_eq!((got.body.as_slice(), got.details.as_str()), (&b"no"[..], "why"));
            }
            _ => {}
        }
    }
}

#[test]
fn metadata_of_any_shape_crosses_both_ways() {
    let mut metadata = Metadata::default();
    let value = json!(["10.0.0.1:8000", 1.5, true, null, {"nested": "x"}]);
    metadata.insert(names::SUBSET_NAMESPACE, names::DESTINATION_SUBSET, value);
    metadata.insert(names::LB_NAMESPACE, names::DESTINATION, "10.0.0.1:8000".into());
    let incoming =
        Incoming { event: Event::RequestTrailers(Headers::new()), metadata: Some(metadata.clone()) };
    assert_eq!(via_envoy_request(incoming.clone()).1, incoming);
    let reply = Reply { action: Action::RequestTrailers(HeaderChanges::default()), metadata };
    let (_, back) = via_envoy_response(reply.clone());
    assert_eq!(back, reply);
    assert_eq!(back.metadata.destination(), Some("10.0.0.1:8000"));
}

#[test]
fn a_subset_hint_as_envoy_sends_it_is_read() {
    let text = |text: &str| EnvoyValue { kind: Some(Kind::StringValue(text.to_owned())) };
    let list = EnvoyValue { kind: Some(Kind::ListValue(ListValue { values: vec![text("10.0.0.1:8000")] })) };
    let fields = [(names::DESTINATION_SUBSET.to_owned(), list)].into();
    let request = ProcessingRequest {
        metadata_context: Some(EnvoyMetadata {
            filter_metadata: [(names::SUBSET_NAMESPACE.to_owned(), Struct { fields })].into(),
            ..EnvoyMetadata::default()
        }),
        request: Some(Request::RequestBody(envoy::HttpBody::default())),
        ..ProcessingRequest::default()
    };
    let ours = wire::ProcessingRequest::decode(request.encode_to_vec().as_slice()).unwrap();
    let metadata = Incoming::from_wire(ours).unwrap().metadata.unwrap();
    assert_eq!(
        metadata.get(names::SUBSET_NAMESPACE, names::DESTINATION_SUBSET),
        Some(&json!(["10.0.0.1:8000"]))
    );
}

#[test]
fn a_value_is_read_where_there_is_no_raw_value() {
    let option = HeaderValueOption {
        header: Some(HeaderValue {
            key: "x".to_owned(),
            value: "plain".to_owned(),
            ..HeaderValue::default()
        }),
        ..HeaderValueOption::default()
    };
    let map = HeaderMap { headers: vec![option.header.unwrap()] };
    let request = ProcessingRequest {
        request: Some(Request::RequestHeaders(envoy::HttpHeaders {
            headers: Some(map),
            ..envoy::HttpHeaders::default()
        })),
        ..ProcessingRequest::default()
    };
    let ours = wire::ProcessingRequest::decode(request.encode_to_vec().as_slice()).unwrap();
    let Event::RequestHeaders { headers, .. } = Incoming::from_wire(ours).unwrap().event else {
        panic!("not headers");
    };
    assert_eq!(headers.get("X"), Some("plain"));
}
