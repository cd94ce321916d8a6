//! A real Envoy that asks pickers over ext_proc, configured as gateways do it.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The configuration of one listener port.
#[derive(Debug, Clone, Default)]
pub(crate) struct Port {
    /// The pickers, which are asked over TLS. Without pickers, requests go to the endpoints in turn.
    pub(crate) pickers: Vec<SocketAddr>,
    /// The endpoints of the pool.
    pub(crate) endpoints: Vec<SocketAddr>,
    /// Whether requests are forwarded if no picker answers.
    pub(crate) fail_open: bool,
    /// Whether Envoy checks the pickers' health. It sends requests only to healthy pickers.
    pub(crate) health: bool,
    /// The endpoints that a picker may choose: the subset hint of a gateway.
    pub(crate) subset: Option<Vec<String>>,
    /// Whether Envoy tries the next endpoint of a list if it cannot reach the first. Envoy 1.40 then sends a body with trailers
    /// twice.
    pub(crate) retries: bool,
    /// How long a whole exchange may take, as `0.5s`. Empty: for ever.
    pub(crate) timeout: &'static str,
}

/// An Envoy process, which ends when this is dropped.
pub(crate) struct Envoy {
    child: Child,
    ports: Vec<u16>,
    admin: u16,
    folder: TempDir,
}

/// How long Envoy may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

impl Envoy {
    /// Starts Envoy, and waits until it serves.
    pub(crate) fn start(program: &Path, ports: &[Port]) -> Self {
        let folder = TempDir::new().unwrap();
        let admin = free_port();
        let numbers: Vec<u16> = ports.iter().map(|_| free_port()).collect();
        let config = config(admin, &numbers, ports);
        let file = folder.path().join("envoy.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&file)
            .args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"])
            .args(["--drain-time-s", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut envoy = Self { child: spawn(command), ports: numbers, admin, folder };
        let start = Instant::now();
        while !envoy.listens() {
            let ended = envoy.child.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < PATIENCE, "Envoy did not start: {}", envoy.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        envoy
    }

    /// The URL of a port, by its index in the list given to [`Envoy::start`].
    pub(crate) fn url(&self, port: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[port])
    }

    /// The address of the admin port, which has the metrics.
    #[allow(dead_code, reason = "the bench needs no metrics of Envoy")]
    pub(crate) fn admin(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.admin))
    }

    /// The process, whose CPU time a bench measures.
    #[allow(dead_code, reason = "only one bench measures Envoy itself")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Envoy's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Whether all ports accept connections. Envoy opens the admin port first, so that port alone would not be enough.
    fn listens(&self) -> bool {
        let ports = self.ports.iter().chain([&self.admin]);
        ports.into_iter().all(|port| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok())
    }
}

/// Starts Envoy on a thread that never ends: Envoy ends with the thread that started it, and the thread of one test may end
/// before other tests that share this Envoy.
fn spawn(mut command: Command) -> Child {
    let (sender, child) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sender.send(command.spawn().unwrap()).unwrap();
        loop {
            std::thread::park();
        }
    });
    child.recv().unwrap()
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a free port.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn config(admin: u16, numbers: &[u16], ports: &[Port]) -> Value {
    let listeners: Vec<Value> = ports
        .iter()
        .zip(numbers)
        .enumerate()
        .map(|(index, (port, number))| listener(index, *number, port))
        .collect();
    let mut clusters = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        clusters.push(endpoints(index, port));
        if !port.pickers.is_empty() {
            clusters.push(pickers(index, port));
        }
    }
    json!({
        "admin": {"address": address(SocketAddr::from(([127, 0, 0, 1], admin)))},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    })
}

fn address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

fn listener(index: usize, number: u16, port: &Port) -> Value {
    let mut filters = Vec::new();
    if let Some(subset) = &port.subset {
        filters.push(json!({
            "name": "envoy.filters.http.set_metadata",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
                "metadata": [{
                    "metadata_namespace": "envoy.lb.subset_hint",
                    "value": {"x-gateway-destination-endpoint-subset": subset},
                }],
            },
        }));
    }
    if !port.pickers.is_empty() {
        filters.push(json!({
            "name": "envoy.filters.http.ext_proc",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
                "grpc_service": {"envoy_grpc": {"cluster_name": format!("picker-{index}")}, "timeout": "1000s"},
                "failure_mode_allow": port.fail_open,
                "message_timeout": "1000s",
                "processing_mode": {
                    "request_header_mode": "SEND", "response_header_mode": "SEND",
                    "request_body_mode": "FULL_DUPLEX_STREAMED", "response_body_mode": "FULL_DUPLEX_STREAMED",
                    "request_trailer_mode": "SEND", "response_trailer_mode": "SEND",
                },
                "metadata_options": {
                    "forwarding_namespaces": {"untyped": ["envoy.lb.subset_hint", "envoy.lb"]},
                    "receiving_namespaces": {"untyped": ["envoy.lb"]},
                },
            },
        }));
    }
    filters.push(json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
    }));
    let timeout = if port.timeout.is_empty() { "0s" } else { port.timeout };
    let mut route = json!({"cluster": format!("endpoints-{index}"), "timeout": timeout});
    if port.retries {
        route["retry_policy"] = json!({"retry_on": "connect-failure,refused-stream", "num_retries": 3});
    }
    json!({
        "name": format!("port-{index}"),
        "address": address(SocketAddr::from(([127, 0, 0, 1], number))),
        // Gateways set this limit for long prompts.
        "per_connection_buffer_limit_bytes": 32768,
        "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": format!("port-{index}"),
                "codec_type": "AUTO",
                "http_protocol_options": {"enable_trailers": true},
                "stream_idle_timeout": "0s",
                "http_filters": filters,
                "route_config": {"virtual_hosts": [{
                    "name": "all", "domains": ["*"],
                    "routes": [{
                        "match": {"prefix": "/"},
                        "route": route,
                    }],
                }]},
            },
        }]}],
    })
}

fn members(addresses: &[SocketAddr]) -> Value {
    let of = |at: &SocketAddr| json!({"endpoint": {"address": address(*at)}});
    let all: Vec<Value> = addresses.iter().map(of).collect();
    json!([{"lb_endpoints": all}])
}

/// Returns the cluster of a pool's endpoints: the endpoint that the picker chose, or else any.
fn endpoints(index: usize, port: &Port) -> Value {
    let name = format!("endpoints-{index}");
    let round_robin = json!({"policies": [{"typed_extension_config": {
        "name": "envoy.load_balancing_policies.round_robin",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"},
    }}]});
    let policy = if port.pickers.is_empty() {
        round_robin
    } else {
        json!({"policies": [{"typed_extension_config": {
            "name": "envoy.load_balancing_policies.override_host",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost",
                "override_host_sources": [
                    {"header": "x-gateway-destination-endpoint"},
                    {"metadata": {"key": "envoy.lb", "path": [{"key": "x-gateway-destination-endpoint"}]}},
                ],
                "fallback_policy": round_robin,
            },
        }}]})
    };
    json!({
        "name": name, "type": "STATIC", "connect_timeout": "5s",
        "load_balancing_policy": policy,
        "load_assignment": {"cluster_name": name, "endpoints": members(&port.endpoints)},
    })
}

fn pickers(index: usize, port: &Port) -> Value {
    let name = format!("picker-{index}");
    let mut cluster = json!({
        "name": name, "type": "STATIC", "connect_timeout": "5s",
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }},
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"alpn_protocols": ["h2"]},
        }},
        "load_assignment": {"cluster_name": name, "endpoints": members(&port.pickers)},
    });
    if port.health {
        cluster["health_checks"] = json!([{
            "timeout": "2s", "interval": "0.1s", "no_traffic_interval": "0.1s", "unhealthy_threshold": 1, "healthy_threshold": 1,
            "grpc_health_check": {"service_name": "envoy.service.ext_proc.v3.ExternalProcessor"},
        }]);
    }
    cluster
}
