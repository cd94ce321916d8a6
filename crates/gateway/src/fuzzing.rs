//! The parsers of outside bytes, for fuzzing: objects that anybody with rights to one namespace can write, and responses of engines.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt, executor::block_on, stream};
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::BodyExt;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use longboat_api::foreign::gatewayclass::GatewayClass;
use longboat_watch::Decode;
use serde::de::Error as _;
use serde_json::{Value, json};

pub use crate::keys::fuzzed::{key_secret, usage};
use crate::{
    PodTemplate, RoutingInputs,
    keys::{LABEL, hash_keys},
    manage::{Children, places},
    ports::Ports,
    proxy::{ProxyBody, end_with_error_event},
    resolved::Resolved,
    route::RouteParser,
    secret_namespaces::SecretNamespaces,
    status,
    tables::Tables,
};

/// The socket whose table is asked.
const SOCKET: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8080);

/// Returns the inputs of a gateway that has nothing but its class, `longboat`.
pub(crate) fn inputs() -> RoutingInputs {
    let class = json!({"metadata": {"name": "longboat"}, "spec": {"controllerName": crate::CONTROLLER_NAME}});
    let class = GatewayClass::decode(&class.to_string()).map(Arc::new);
    RoutingInputs { classes: class.into_iter().collect(), ..RoutingInputs::default() }
}

/// Adds an object of a kind that the gateway watches. One without a namespace is in `ns`, and every Gateway is of the class
/// `longboat`.
pub(crate) fn add(all: &mut RoutingInputs, mut object: Value) -> serde_json::Result<()> {
    fn push<T: Decode>(list: &mut Vec<Arc<T>>, object: &Value) -> serde_json::Result<()> {
        list.push(Arc::new(T::decode(&object.to_string())?));
        Ok(())
    }
    if !object["metadata"].is_object() {
        return Err(serde_json::Error::custom("the object has no metadata"));
    }
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "ns".into();
    }
    match object["kind"].as_str().unwrap_or_default() {
        "Gateway" => {
            if object["spec"].is_object() {
                object["spec"]["gatewayClassName"] = "longboat".into();
            }
            push(&mut all.gateways, &object)
        }
        "ListenerSet" => push(&mut all.listener_sets, &object),
        "HTTPRoute" => push(&mut all.routes, &object),
        "ReferenceGrant" => push(&mut all.grants, &object),
        "BackendTLSPolicy" => push(&mut all.tls_policies, &object),
        "Secret" if object["metadata"]["labels"][LABEL] == "true" => {
            let mut secret = Decode::decode(&object.to_string())?;
            hash_keys(&mut secret);
            all.api_keys.push(Arc::new(secret));
            Ok(())
        }
        "Secret" => push(&mut all.secrets, &object),
        "ConfigMap" => push(&mut all.config_maps, &object),
        "Deployment" => push(&mut all.deployments, &object),
        "ScaledObject" => push(&mut all.scaled_objects, &object),
        "InferencePool" => push(&mut all.pools, &object),
        "Pod" => push(&mut all.pods, &object),
        "Service" => push(&mut all.services, &object),
        "EndpointSlice" => push(&mut all.slices, &object),
        "LLMInferenceService" => push(&mut all.inference, &object),
        kind => Err(serde_json::Error::custom(format!("the gateway does not watch the kind `{kind}`"))),
    }
}

/// Serves a list of objects: on a machine, where they become tables that answer requests, and on a cluster, where Gateways become
/// Deployments. Every object gets a status.
///
/// # Panics
///
/// If a status is empty, or if the objects of a Gateway cannot be built.
pub fn objects(bytes: &[u8]) {
    let Ok(objects) = serde_json::from_slice::<Vec<Value>>(bytes) else { return };
    let mut observed = inputs();
    for object in objects {
        // What cannot be read never arrives: the watch reports it.
        let _ = add(&mut observed, object);
    }
    let now = Time(Timestamp::UNIX_EPOCH);
    let socket = SocketAddr::from(SOCKET);
    let ports = Ports::only(IpAddr::V4(SOCKET.0), SOCKET.1, &observed.gateways);
    let resolved = Resolved::new(&observed, &ports, &mut RouteParser::default());
    let updates = status::updates(&observed, &resolved, &now);
    assert!(updates.routes.iter().all(|route| route.status.is_some()), "a route without a status");
    let tables = Tables::new(&observed, &ports, &resolved);
    for (host, path) in
        [("a.example.com", "/v1/models?a=b"), ("localhost:8080", "/ns/name/v1/completions"), ("", "/")]
    {
        let request = Request::builder().uri(path).header(header::HOST, host).header("x-model", "m").body(());
        let Ok(head) = request.map(|request| request.into_parts().0) else { continue };
        let Some(found) = tables.on(socket).find(&head) else { continue };
        for place in [0, u32::MAX] {
            let _ = found.rule.choose(|total| place.min(total - 1));
            let _ = found.key_scope(place);
        }
        let changed = found.rule.filters.path.as_ref();
        let _ = changed
            .zip(head.uri.path_and_query())
            .map(|(change, path)| change.apply(path, found.prefix.as_deref()));
    }
    let _ = tables.certificates(socket, Some("a.example.com"));
    let ports = places(&observed, &observed.deployments, &BTreeMap::new());
    let resolved = Resolved::new(&observed, &ports, &mut RouteParser::default());
    status::updates(&observed, &resolved, &now);
    Children::new(&observed, &resolved, &PodTemplate { image: "image".into() }, &SecretNamespaces::default())
        .expect("the objects can be built");
}

/// Streams the events of an engine that dies after the last of them. Clients get whole events in any case, and then an error event,
/// unless the answer was complete. How the bytes are cut changes nothing.
///
/// # Panics
///
/// If a client gets something else.
pub fn events(bytes: &[u8]) {
    let whole = streamed(bytes, bytes.len().max(1), true);
    let complete = streamed(bytes, 7, false);
    assert_eq!(complete, bytes, "a complete stream is changed");
    // An empty line more between two events says nothing.
    let lines =
        |stream: &[u8]| stream.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>();
    assert_eq!(lines(&whole), lines(&streamed(bytes, 3, true)), "the stream depends on how it is cut");
    let events = whole.iter().zip(bytes).take_while(|(passed, sent)| passed == sent).count();
    let added = &whole[events..];
    assert!(added.is_empty() || added.ends_with(b"\n\n"), "the stream ends in the middle of an event");
}

/// Returns what a client gets if the engine sends these bytes in pieces of this size, and then dies or ends.
fn streamed(bytes: &[u8], size: usize, dies: bool) -> Vec<u8> {
    let pieces: Vec<_> =
        bytes.chunks(size).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    let death = dies.then(|| Err("the engine is gone".into()));
    let body = ProxyBody::stream(stream::iter(pieces.into_iter().chain(death)).boxed());
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    let mut body = end_with_error_event(response).into_body();
    let mut passed = Vec::new();
    while let Some(Ok(frame)) = block_on(body.frame()) {
        passed.extend(frame.into_data().into_iter().flatten());
    }
    passed
}
