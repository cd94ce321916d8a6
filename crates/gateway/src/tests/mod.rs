//! Tests with objects of the Gateway API: what their statuses say, and what clients see on real sockets.

mod activation;
mod api_keys;
mod client_certificates;
mod corpus;
mod draining;
mod listeners;
mod protocols;
mod statuses;
mod traffic;

use std::{net::SocketAddr, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use crate::{
    RoutingInputs, fuzzing,
    ports::Ports,
    resolved::Resolved,
    route::RouteParser,
    status::{self, Updates},
};

/// Reads objects of the kinds that the gateway watches. Objects without a namespace are in `ns`.
pub(crate) fn observed(objects: impl IntoIterator<Item = Value>) -> RoutingInputs {
    let mut all = fuzzing::inputs();
    for object in objects {
        fuzzing::add(&mut all, object).unwrap();
    }
    all
}

fn statuses(observed: &RoutingInputs, ports: &Ports) -> Updates {
    let resolved = Resolved::new(observed, ports, &mut RouteParser::default());
    let now = Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    status::updates(observed, &resolved, &now)
}

/// Returns the conditions as `type=status reason`.
pub(crate) fn summary(conditions: &[Condition]) -> Vec<String> {
    let line =
        |condition: &Condition| format!("{}={} {}", condition.type_, condition.status, condition.reason);
    conditions.iter().map(line).collect()
}

pub(crate) fn secret(name: &str, host: &str) -> (Value, String) {
    let request = longboat_tls::LeafRequest {
        common_name: host.into(),
        dns_names: vec![host.into()],
        days: 1,
        ..longboat_tls::LeafRequest::default()
    };
    let pair = longboat_tls::self_signed(&request).unwrap();
    let bytes = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap();
    let data = json!({"tls.crt": bytes(&pair.certificate_pem), "tls.key": bytes(&pair.key_pem)});
    (json!({"kind": "Secret", "metadata": {"name": name}, "data": data}), pair.certificate_pem)
}

/// Returns a Service with one endpoint, and its EndpointSlice.
fn service(name: &str, endpoint: SocketAddr, protocol: Option<&str>) -> [Value; 2] {
    let port = json!({"name": "p", "port": 80, "appProtocol": protocol});
    [
        json!({"kind": "Service", "metadata": {"name": name}, "spec": {"ports": [port]}}),
        json!({
            "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "p", "port": endpoint.port()}], "endpoints": [{"addresses": [endpoint.ip()]}],
        }),
    ]
}
