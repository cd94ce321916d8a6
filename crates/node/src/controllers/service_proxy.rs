//! Cluster IPs: a TCP proxy on the address of each Service. The API server assigns these addresses from a loopback range.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use longboat_api::shared_picker::SERVICE_NAME;
use longboat_key::Key;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::queue::triggers;
use super::setup::Caches;
use crate::cache::Cache;

/// The buffer for each direction of a connection, in bytes.
const BUFFER_BYTES: usize = 8 * 1024;

/// The most connections of one port. Further connections wait in the listener's backlog.
const MAX_CONNECTIONS: usize = 512;

/// How long to wait for a connection to an endpoint before trying the next endpoint.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a proxy, and the Service port that it serves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Frontend {
    address: SocketAddr,
    service: Key,
    port_name: String,
}

/// The running proxies. One that is dropped ends with its connections.
type Proxies = HashMap<Frontend, AbortOnDropHandle<()>>;

pub(super) async fn run(caches: Caches, cancel: CancellationToken) {
    let changes = triggers(&caches.services, |service: &Service| [Key::of(service)]);
    let mut changes = std::pin::pin!(changes);
    let mut proxies = Proxies::new();
    // Ports that could not be bound are tried again.
    let mut retry = tokio::time::interval(Duration::from_secs(10));
    retry.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            change = changes.next() => if change.is_none() { break },
            _ = retry.tick() => {}
        }
        let wanted = caches.services.all().iter().flat_map(|service| frontends(service)).collect();
        update(&mut proxies, wanted, &caches.slices, &cancel).await;
    }
}

/// Ends the proxies that are not wanted, and starts those that are missing.
async fn update(
    proxies: &mut Proxies,
    wanted: Vec<Frontend>,
    slices: &Cache<EndpointSlice>,
    cancel: &CancellationToken,
) {
    let unwanted: Vec<_> = proxies.extract_if(|frontend, _| !wanted.contains(frontend)).collect();
    for (_, proxy) in unwanted {
        proxy.abort();
        // A proxy that starts below may need its address.
        let _ = proxy.await;
    }
    for frontend in wanted {
        if proxies.contains_key(&frontend) {
            continue;
        }
        match TcpListener::bind(frontend.address).await {
            Ok(listener) => {
                let proxy = serve(listener, frontend.clone(), slices.clone(), cancel.clone());
                proxies.insert(frontend, AbortOnDropHandle::new(tokio::spawn(proxy)));
            }
            Err(error) => {
                tracing::debug!(%error, address = %frontend.address, "Cannot listen on a cluster IP.");
            }
        }
    }
}

/// Returns the loopback addresses of a Service's TCP ports.
fn frontends(service: &Service) -> Vec<Frontend> {
    let spec = service.spec.as_ref();
    let ip =
        spec.and_then(|spec| spec.cluster_ip.as_ref()?.parse::<IpAddr>().ok()).filter(IpAddr::is_loopback);
    let ports = spec.into_iter().flat_map(|spec| spec.ports.iter().flatten());
    ports
        .filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"))
        .filter_map(|port| {
            Some(Frontend {
                address: SocketAddr::new(ip?, u16::try_from(port.port).ok()?),
                service: Key::of(service),
                port_name: port.name.clone().unwrap_or_default(),
            })
        })
        .collect()
}

async fn serve(
    listener: TcpListener,
    frontend: Frontend,
    slices: Cache<EndpointSlice>,
    stop: CancellationToken,
) {
    let turn = Arc::new(AtomicUsize::new(0));
    let connection = |client, _| forward(client, backends(&frontend, &slices.all()), Arc::clone(&turn));
    longboat_accept::until(&stop, listener, MAX_CONNECTIONS, connection).await.shutdown().await;
}

/// Returns the ready endpoints of a Service's port. If none is ready, returns the terminating endpoints that still serve.
fn backends(frontend: &Frontend, slices: &[Arc<EndpointSlice>]) -> Vec<SocketAddr> {
    let of = |wanted: fn(&k8s_openapi::api::discovery::v1::EndpointConditions) -> bool| -> Vec<SocketAddr> {
        let own = slices.iter().filter(|slice| {
            slice.metadata.namespace.as_deref() == Some(&frontend.service.namespace)
                && slice.labels().get(SERVICE_NAME).map(String::as_str) == Some(&frontend.service.name)
        });
        own.flat_map(|slice| {
            let port = slice
                .ports
                .iter()
                .flatten()
                .find(|port| port.name.as_deref().unwrap_or_default() == frontend.port_name);
            let port = port.and_then(|port| u16::try_from(port.port?).ok());
            let endpoints = slice
                .endpoints
                .iter()
                .filter(move |endpoint| endpoint.conditions.as_ref().is_none_or(wanted));
            endpoints.filter_map(move |endpoint| {
                Some(SocketAddr::new(endpoint.addresses.first()?.parse().ok()?, port?))
            })
        })
        .collect()
    };
    let ready = of(|conditions| conditions.ready != Some(false));
    if ready.is_empty() { of(|conditions| conditions.serving == Some(true)) } else { ready }
}

/// Connects to an endpoint in round-robin order, and copies until both sides are done. Tries the next endpoint if a
/// connection fails.
async fn forward(mut client: TcpStream, backends: Vec<SocketAddr>, turn: Arc<AtomicUsize>) {
    let first = turn.fetch_add(1, Ordering::Relaxed);
    for offset in 0..backends.len() {
        let backend = backends[(first + offset) % backends.len()];
        if let Ok(Ok(mut server)) = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(backend)).await {
            // Streamed responses come in small pieces, which must not wait for more data.
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            // If one side closes the connection early, the proxy has nothing to do.
            let _ = tokio::io::copy_bidirectional_with_sizes(
                &mut client,
                &mut server,
                BUFFER_BYTES,
                BUFFER_BYTES,
            )
            .await;
            return;
        }
    }
    // No endpoint accepts a connection, so the client's connection closes. The proxy has already accepted it and cannot
    // refuse it.
}

#[cfg(test)]
mod tests {
    use longboat_key::{Name, Namespace};
    use serde_json::json;

    use super::*;

    fn slice(conditions: &serde_json::Value) -> Arc<EndpointSlice> {
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": "s-1", "namespace": "ns", "labels": {SERVICE_NAME: "s"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8000}],
            "endpoints": [{"addresses": ["127.64.0.1"], "conditions": conditions}]}),
            )
            .unwrap(),
        )
    }

    #[test]
    fn a_port_goes_to_ready_endpoints_or_at_least_to_serving_ones() {
        let service: Service = serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "ns"},
            "spec": {"clusterIP": "127.96.0.1", "ports": [{"name": "http", "port": 80}, {"name": "udp", "port": 53, "protocol": "UDP"}]}}))
        .unwrap();
        let frontends = frontends(&service);
        assert_eq!(frontends.len(), 1);
        assert_eq!(frontends[0].address, "127.96.0.1:80".parse().unwrap());
        let to = |conditions: serde_json::Value| backends(&frontends[0], &[slice(&conditions)]);
        assert_eq!(to(json!({"ready": true})), ["127.64.0.1:8000".parse().unwrap()]);
        assert_eq!(to(json!({"ready": false, "serving": true, "terminating": true})).len(), 1);
        assert!(to(json!({"ready": false, "serving": false})).is_empty());
    }

    #[tokio::test]
    async fn a_renamed_port_is_served_at_once_at_the_same_address() {
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let service = Key::new(Namespace("ns"), Name("s"));
        let frontend =
            |name: &str| Frontend { address, service: service.clone(), port_name: name.to_owned() };
        let (mut proxies, slices, cancel) = (Proxies::new(), Cache::of(Vec::new()), CancellationToken::new());
        for name in ["old", "new"] {
            update(&mut proxies, vec![frontend(name)], &slices, &cancel).await;
            assert_eq!(proxies.keys().collect::<Vec<_>>(), [&frontend(name)]);
        }
    }

    #[test]
    fn only_loopback_addresses_are_served() {
        for ip in ["None", "", "10.96.0.1"] {
            let service: Service =
                serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "ns"},
                "spec": {"clusterIP": ip, "ports": [{"port": 80}]}}))
                .unwrap();
            assert!(frontends(&service).is_empty(), "{ip}");
        }
    }
}
