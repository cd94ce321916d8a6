//! `pods/proxy` and `services/proxy`: passes a request on to a port of a pod. A Service stands for one of its ready
//! endpoints.
//!
//! Only pods are reached, through the node: an EndpointSlice cannot lead to other addresses of this machine.

use http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use rand::seq::IndexedRandom;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::TlsConnector;

use crate::{
    answer::{self, Answer},
    pod_access::{PodRef, PortStream},
    status::ApiError,
    store::Key,
    verbs::{Call, pods},
};

/// A port of a pod.
struct Target {
    pod: PodRef,
    port: u16,
    secure: bool,
}

/// Passes a request on, and answers with the response.
pub(crate) async fn pass(call: &Call<'_>) -> Result<Answer, ApiError> {
    let target = target(call)?;
    let request = call.request;
    // The path is passed on as it was sent: …/namespaces/NAMESPACE/RESOURCE/NAME/proxy/PATH.
    let Some(path) = request.path.splitn(9, '/').nth(8) else {
        return Ok(with_slash(call));
    };
    let access = pods::access(call, &target.pod.name)?;
    let stream = access.connect(target.pod, target.port).await.map_err(pods::refusal)?;
    let stream: Box<dyn PortStream> = if target.secure {
        // like kube-apiserver, which does not verify the certificates of pods either
        let connector = TlsConnector::from(longboat_tls::insecure_client_config(&[b"http/1.1"]));
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        Box::new(connector.connect(name, stream).await.map_err(|error| unreachable(&error))?)
    } else {
        stream
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(&error))?;
    let closing = call.state.sessions.closing.clone();
    call.state.sessions.tasks.spawn(async move {
        if let Some(Err(error)) = closing.run_until_cancelled(connection).await {
            tracing::debug!(%error, "A proxied connection ended.");
        }
    });
    let query = request.raw_query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
    let uri: Uri = format!("/{path}{query}").parse().map_err(|error| {
        ApiError::bad_request(format!("the path after proxy cannot be passed on: {error}"))
    })?;
    let mut passed = http::Request::new(answer::full(request.body.clone()));
    passed.method_mut().clone_from(&request.method);
    *passed.uri_mut() = uri;
    *passed.headers_mut() = request.headers.clone();
    longboat_accept::remove_hop_by_hop(passed.headers_mut());
    // The token is for this server. The body was read as a whole.
    for name in [header::AUTHORIZATION, header::CONTENT_LENGTH, header::EXPECT] {
        passed.headers_mut().remove(name);
    }
    let host = request.header("host").to_owned();
    passed.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    if let Ok(host) = HeaderValue::from_str(&host) {
        passed.headers_mut().insert("x-forwarded-host", host);
    }
    let response = sender.send_request(passed).await.map_err(|error| unreachable(&error))?;
    let (head, body) = response.into_parts();
    let mut answer = Response::new(body.map_err(std::io::Error::other).boxed_unsync());
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    longboat_accept::remove_hop_by_hop(answer.headers_mut());
    Ok(answer)
}

/// Sends a client to the path with a slash at its end, so that relative links of pages work.
fn with_slash(call: &Call<'_>) -> Answer {
    let query = call.request.raw_query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
    let mut answer = answer::bytes(200, "", Vec::new());
    *answer.status_mut() = if matches!(call.request.method, Method::GET | Method::HEAD) {
        StatusCode::MOVED_PERMANENTLY
    } else {
        StatusCode::PERMANENT_REDIRECT
    };
    if let Ok(location) = HeaderValue::from_str(&format!("{}/{query}", call.request.path)) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

fn unreachable(error: &dyn std::fmt::Display) -> ApiError {
    unavailable(format!("error trying to reach service: {error}"))
}

fn unavailable(why: String) -> ApiError {
    ApiError::new(503, "ServiceUnavailable", why)
}

/// Finds the pod and the port that a path names as `[SCHEME:]NAME[:PORT]`.
fn target(call: &Call<'_>) -> Result<Target, ApiError> {
    let resource = &call.resource;
    let text = call.path.name.as_deref().unwrap_or_default();
    let parts: Vec<&str> = text.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme @ ("" | "http" | "https"), name, port] => (*scheme, *name, *port),
        _ => return Err(ApiError::bad_request(format!("invalid {} request {text:?}", resource.singular))),
    };
    let namespace = call.path.namespace.clone().unwrap_or_default();
    let key = Key::new(namespace.as_str(), name);
    let not_found = || ApiError::not_found(resource.about(name));
    let object = call.state.store.get(&resource.table, &key).ok_or_else(not_found)?;
    let (pod, port) = match resource.plural.as_str() {
        "pods" => (name.to_owned(), port_of_pod(&object.value, port)?),
        "services" => endpoint(call, &object.value, &key, port)?,
        _ => return Err(not_found()),
    };
    Ok(Target { pod: PodRef { namespace, name: pod }, port, secure: scheme == "https" })
}

fn items<'v>(value: &'v Value, list: &str) -> &'v [Value] {
    value[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

/// Returns a port of a pod: by default the first of its containers.
fn port_of_pod(pod: &Value, port: &str) -> Result<u16, ApiError> {
    if !port.is_empty() {
        return port
            .parse()
            .map_err(|_| ApiError::bad_request(format!("invalid port {port:?}: expected a number")));
    }
    let containers = items(&pod["spec"], "containers");
    let first = containers.iter().flat_map(|container| items(container, "ports")).next();
    Ok(first.and_then(|port| number(&port["containerPort"])).unwrap_or(80))
}

/// Chooses a ready endpoint of a Service. Returns its pod and the pod's port.
fn endpoint(call: &Call<'_>, service: &Value, key: &Key, port: &str) -> Result<(String, u16), ApiError> {
    let name = key.name.as_str();
    let port_name = match port.parse::<u64>() {
        Err(_) => port,
        Ok(number) => items(&service["spec"], "ports")
            .iter()
            .find(|port| port["port"] == number)
            .map(|port| port["name"].as_str().unwrap_or_default())
            .ok_or_else(|| unavailable(format!("no service port {number} found for service {name:?}")))?,
    };
    let slices = call.state.store.list("discovery.k8s.io/endpointslices", Some(&key.namespace)).objects;
    let mut own = slices
        .iter()
        .map(|(_, slice)| &*slice.value)
        .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name)
        .peekable();
    if own.peek().is_none() {
        return Err(ApiError::not_found(call.resource.about(name)));
    }
    let mut ready = Vec::new();
    for slice in own {
        let ports = items(slice, "ports").iter();
        let Some(port) = ports
            .filter(|port| port["name"].as_str().unwrap_or_default() == port_name)
            .find_map(|port| number(&port["port"]))
        else {
            continue;
        };
        for endpoint in items(slice, "endpoints") {
            let pod = &endpoint["targetRef"];
            if endpoint["conditions"]["ready"] != false
                && pod["kind"] == "Pod"
                && let Some(pod) = pod["name"].as_str()
            {
                ready.push((pod.to_owned(), port));
            }
        }
    }
    ready
        .choose(&mut rand::rng())
        .cloned()
        .ok_or_else(|| unavailable(format!("no endpoints available for service {name:?}")))
}
