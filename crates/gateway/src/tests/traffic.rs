//! What clients see: certificates by name, other protocols, retries, CORS.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use arc_swap::ArcSwap;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Guard,
    proxy::{Accounts, Activator, Proxy, QueueLimits},
    server::ProxyThreads,
    socket_tls::SocketTls,
    tables::Tables,
};

/// A gateway with one socket.
pub(super) struct Bench {
    pub(super) socket: SocketAddr,
    pub(super) tables: Arc<ArcSwap<Tables>>,
    pub(super) activator: Arc<Activator>,
    pub(super) accounts: Arc<Accounts>,
    pub(super) shutdown: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub(super) fn tables(socket: SocketAddr, objects: Vec<Value>) -> Tables {
    let observed = observed(objects);
    let ports = Ports::only(socket.ip(), socket.port(), &observed.gateways);
    Tables::new(&observed, &ports, &Resolved::new(&observed, &ports, &mut RouteParser::default()))
}

impl Bench {
    /// Starts a gateway. `objects` gets its port.
    pub(super) async fn start(tls: bool, objects: impl FnOnce(u16) -> Vec<Value>) -> Self {
        Self::start_with(tls, objects, QueueLimits::default()).await
    }

    pub(super) async fn start_with(
        tls: bool,
        objects: impl FnOnce(u16) -> Vec<Value>,
        limits: QueueLimits,
    ) -> Self {
        longboat_tls::install_default_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = listener.local_addr().unwrap();
        let tables = Arc::new(ArcSwap::from_pointee(tables(socket, objects(socket.port()))));
        let shutdown = CancellationToken::new();
        let front = "127.0.0.1:1".parse().unwrap();
        let guard = Guard { hosts: vec!["*".into()], ..Guard::default() };
        let mut proxy = Proxy::new(tables.clone(), Some(guard), Some(front), shutdown.clone());
        proxy.activator = Arc::new(Activator::new(tables.clone(), limits, shutdown.clone()));
        let (activator, accounts) = (proxy.activator.clone(), proxy.accounts.clone());
        let threads = ProxyThreads::start(&proxy).unwrap();
        let tls = tls.then(|| SocketTls::new(socket, tables.clone()));
        let until = shutdown.clone();
        tokio::spawn(async move { threads.serve(listener, tls, Duration::from_secs(2), until).await });
        Self { socket, tables, activator, accounts, shutdown }
    }
}

/// The header in which the back end returns the host that it has seen.
const SEEN_HOST: &str = "x-seen-host";

/// A header that the back end returns.
const LONG: &str = "x-long";

/// Starts a back end for HTTP/1.1 and HTTP/2. It fails two of three requests below `/flaky`, changes to an echo protocol if asked, and
/// otherwise says which version of HTTP it has seen.
pub(super) async fn back_end() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let count = count.fetch_add(1, Ordering::SeqCst);
                    async move { Ok::<_, Infallible>(answer(request, count)) }
                });
                let builder = longboat_accept::builder(Duration::from_mins(1));
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

fn answer(request: Request<Incoming>, count: usize) -> Response<String> {
    let mut response = Response::new(format!("{:?} {}", request.version(), request.uri().path()));
    let host = request.uri().authority().map(|authority| authority.as_str().parse().unwrap());
    let host = host.or_else(|| request.headers().get(header::HOST).cloned());
    response.headers_mut().extend(host.map(|host| (header::HeaderName::from_static(SEEN_HOST), host)));
    let long = request.headers().get(LONG).cloned();
    response.headers_mut().extend(long.map(|long| (header::HeaderName::from_static(LONG), long)));
    if request.headers().contains_key(header::UPGRADE) {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert(header::CONNECTION, "upgrade".parse().unwrap());
        response.headers_mut().insert(header::UPGRADE, "echo".parse().unwrap());
        *response.body_mut() = String::new();
        tokio::spawn(async move {
            let mut stream = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        });
    } else if request.uri().path().starts_with("/flaky") && count % 3 < 2 {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

pub(super) fn gateway(listeners: &Value) -> Value {
    json!({"kind": "Gateway", "metadata": {"name": "g"}, "spec": {"listeners": listeners}})
}

pub(super) fn route(name: &str, rule: &Value) -> Value {
    json!({"kind": "HTTPRoute", "metadata": {"name": name}, "spec": {"parentRefs": [{"name": "g"}], "rules": [rule]}})
}

fn http(port: u16) -> Value {
    gateway(&json!([{"name": "http", "port": port, "protocol": "HTTP"}]))
}

/// Returns the certificate that a client gets who asks for this name.
async fn served(bench: &Bench, name: &'static str) -> Option<Vec<u8>> {
    let config = longboat_tls::insecure_client_config(&[b"h2"]);
    let stream = TcpStream::connect(bench.socket).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from(name).unwrap();
    let stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.ok()?;
    Some(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

#[tokio::test]
async fn of_several_certificates_the_one_with_the_very_name_is_shown() {
    let secrets =
        [secret("wildcard", "*.example.com"), secret("exact", "a.example.com"), secret("other", "b.test")];
    let listener = |port: u16, names: &[&str]| {
        let references: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"name": "all", "port": port, "protocol": "HTTPS", "tls": {"certificateRefs": references}})
    };
    for names in [["wildcard", "exact", "other"], ["exact", "wildcard", "other"]] {
        let bench = Bench::start(true, |port| {
            let secrets = secrets.iter().map(|(secret, _)| secret.clone());
            [gateway(&json!([listener(port, &names)]))].into_iter().chain(secrets).collect()
        });
        let bench = bench.await;
        let mut shown = Vec::new();
        for name in ["a.example.com", "c.example.com", "b.test", "nobody.test"] {
            shown.push(served(&bench, name).await.unwrap());
        }
        assert!(shown[0] != shown[1] && shown[1] != shown[2] && shown[0] != shown[2], "{names:?}");
        assert_eq!(shown[3], shown[usize::from(names[0] == "wildcard")], "the first one");
    }
}

#[tokio::test]
async fn the_name_of_the_host_chooses_the_certificate_which_can_be_replaced() {
    let (first, _) = secret("first", "a.example");
    let (second, _) = secret("second", "b.example");
    let (other, _) = secret("first", "a.example");
    let listener = |port: u16, name: &str, host: &str| {
        json!({"name": name, "port": port, "protocol": "HTTPS", "hostname": host,
            "tls": {"certificateRefs": [{"name": name}]}})
    };
    let objects = |port: u16, first: &Value| {
        let listeners = json!([listener(port, "first", "a.example"), listener(port, "second", "*.example")]);
        let mut all = vec![gateway(&listeners), first.clone(), second.clone()];
        all.extend(service("svc", "127.0.0.1:1".parse().unwrap(), None));
        all
    };
    let bench = Bench::start(true, |port| objects(port, &first)).await;
    let served = async |name| served(&bench, name).await;
    let (a, b) = (served("a.example").await.unwrap(), served("b.example").await.unwrap());
    assert_ne!(a, b);
    assert_eq!(served("b.example").await, Some(b.clone()));
    assert_eq!(served("a.test").await, None, "no listener has this name");
    bench.tables.store(Arc::new(tables(bench.socket, objects(bench.socket.port(), &other))));
    assert_ne!(served("a.example").await, Some(a));
    assert_eq!(served("b.example").await, Some(b));
}

#[tokio::test]
async fn an_open_connection_learns_which_listener_has_lost_its_certificate() {
    let back_end = back_end().await;
    let [first, second] = ["a.example", "b.example"].map(|host| secret(host, host).0);
    let objects = |port: u16, secrets: &[&Value]| {
        let listener = |host: &str| json!({"name": host, "port": port, "protocol": "HTTPS", "hostname": host, "tls": {"certificateRefs": [{"name": host}]}});
        let listeners = json!([listener("a.example"), listener("b.example")]);
        let route = route("all", &json!({"backendRefs": [{"name": "svc", "port": 80}]}));
        let mut all = vec![gateway(&listeners), route];
        all.extend(secrets.iter().copied().cloned());
        all.extend(service("svc", back_end, None));
        all
    };
    let bench = Bench::start(true, |port| objects(port, &[&first, &second])).await;
    let config = longboat_tls::insecure_client_config(&[b"http/1.1"]);
    let stream = TcpStream::connect(bench.socket).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("a.example").unwrap();
    let stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut ask = async |host: &str| {
        let request = Request::get("/").header(header::HOST, host).body(String::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap())
    };
    let says = |listener: &str| {
        let text = format!(
            "longboat gateway: listener {listener} of Gateway ns/g does not serve (InvalidCertificateRef): the status of the Gateway says more\n"
        );
        (503, text)
    };
    let publish = |secrets: &[&Value]| {
        bench.tables.store(Arc::new(tables(bench.socket, objects(bench.socket.port(), secrets))));
    };
    assert_eq!([ask("a.example").await.0, ask("b.example").await.0], [200, 421]);
    publish(&[&second]);
    assert_eq!([ask("a.example").await, ask("b.example").await], [says("a.example"), says("a.example")]);
    publish(&[&first]);
    assert_eq!((ask("a.example").await.0, ask("b.example").await), (200, says("b.example")));
    publish(&[]);
    assert_eq!([ask("a.example").await, ask("b.example").await], [says("a.example"), says("a.example")]);
    publish(&[&first, &second]);
    assert_eq!([ask("a.example").await.0, ask("b.example").await.0], [200, 421]);
}

#[tokio::test]
async fn back_ends_speak_http_1_or_http_2_or_another_protocol_and_are_retried() {
    let back_end = back_end().await;
    let bench = Bench::start(false, |port| {
        let rule = |service: &str, path: &str, retry: Value| {
            json!({"matches": [{"path": {"value": path}}], "retry": retry, "backendRefs": [{"name": service, "port": 80}]})
        };
        let mut all = vec![http(port)];
        all.extend(service("plain", back_end, None));
        all.extend(service("h2c", back_end, Some("kubernetes.io/h2c")));
        all.push(route("flaky", &rule("plain", "/flaky", json!({"codes": [503], "attempts": 2}))));
        all.push(route("plain", &rule("plain", "/plain", Value::Null)));
        all.push(route("h2c", &rule("h2c", "/h2c", Value::Null)));
        // Pools whose picker does not answer.
        for (name, protocol) in [("plain-pool", "http"), ("h2c-pool", "kubernetes.io/h2c"), ("flaky-pool", "http")]
        {
            let in_pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name});
            let path = json!({"path": {"type": "PathPrefix", "value": format!("/{name}")}});
            let retry = json!({"codes": [503], "attempts": 2});
            all.push(route(name, &json!({"matches": [path], "retry": retry, "backendRefs": [in_pool]})));
            all.push(json!({"kind": "InferencePool", "metadata": {"name": name}, "spec": {
                "selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": back_end.port()}],
                "appProtocol": protocol, "endpointPickerRef": {"name": "none", "failureMode": "FailOpen"},
            }}));
        }
        all.push(json!({"kind": "Pod", "metadata": {"name": "engine", "labels": {"app": "x"}}, "status": {
            "podIP": back_end.ip(), "conditions": [{"type": "Ready", "status": "True"}],
        }}));
        all
    })
    .await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str| {
        let url = format!("http://{}{path}", bench.socket);
        let response = client.get(url).header(header::HOST, "a.example").send().await.unwrap();
        if response.status() == 200 {
            assert_eq!(response.headers()[SEEN_HOST], "a.example", "{path}");
        }
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(get("/flaky").await, (200, "HTTP/1.1 /flaky".into()));
    assert_eq!(get("/flaky-pool").await, (200, "HTTP/1.1 /flaky-pool".into()));
    assert_eq!(get("/plain").await, (200, "HTTP/1.1 /plain".into()));
    assert_eq!(get("/h2c").await, (200, "HTTP/2.0 /h2c".into()));
    assert_eq!(get("/h2c-pool").await, (200, "HTTP/2.0 /h2c-pool".into()));
    assert_eq!(get("/plain-pool").await, (200, "HTTP/1.1 /plain-pool".into()));
    assert_eq!(get("/none").await.0, 404);
    let h2 =
        reqwest::Client::builder().no_proxy().http2_prior_knowledge().http2_max_header_list_size(1 << 20);
    let long = "x".repeat(50_000);
    let asked = h2.build().unwrap().get(format!("http://{}/h2c", bench.socket)).header(LONG, &long);
    assert_eq!(asked.send().await.unwrap().headers()[LONG], long);
    let mut stream = TcpStream::connect(bench.socket).await.unwrap();
    let head = "GET /plain HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");
}

#[tokio::test]
async fn a_route_decides_which_pages_may_use_it_and_where_clients_are_redirected() {
    let back_end = back_end().await;
    let bench = Bench::start(false, |port| {
        let mut all = vec![http(port)];
        all.extend(service("svc", back_end, None));
        all.push(route("cors", &json!({
            "filters": [{"type": "CORS", "cors": {"allowOrigins": ["https://*.foo.example"], "allowMethods": ["GET"], "maxAge": 60}}],
            "backendRefs": [{"name": "svc", "port": 80}],
        })));
        // A preflight has another method than the request, and not its headers.
        let of_any_page = json!({"type": "CORS", "cors": {"allowOrigins": ["https://any.example"]}});
        let conditions = json!([
            {"path": {"value": "/by-method"}, "method": "GET"},
            {"path": {"value": "/by-header"}, "headers": [{"name": "x-key", "value": "k"}]},
            {"path": {"value": "/other-method"}, "method": "POST"},
        ]);
        all.push(route("conditions", &json!({
            "matches": conditions, "filters": [of_any_page], "backendRefs": [{"name": "svc", "port": 80}],
        })));
        all.push(route("moved", &json!({
            "matches": [{"path": {"value": "/moved"}}],
            "filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "new.example", "statusCode": 308}}],
        })));
        all
    })
    .await;
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let ask = async |method: Method, path: &str, origin: &str| {
        let request =
            client.request(method, format!("http://{}{path}", bench.socket)).header("origin", origin);
        request.header("access-control-request-method", "GET").send().await.unwrap()
    };
    let allowed = ask(Method::OPTIONS, "/", "https://www.foo.example").await;
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://www.foo.example");
    assert_eq!(allowed.headers()["access-control-max-age"], "60");
    let refused = ask(Method::OPTIONS, "/", "https://foo.example.evil").await;
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
    for (path, allowed) in [("/by-method", true), ("/by-header", true), ("/other-method", false)] {
        let answer = ask(Method::OPTIONS, path, "https://any.example").await;
        assert_eq!(answer.headers().contains_key("access-control-allow-origin"), allowed, "{path}");
    }
    let response = ask(Method::GET, "/", "https://www.foo.example").await;
    assert_eq!(response.headers()["access-control-allow-origin"], "https://www.foo.example");
    let moved = ask(Method::GET, "/moved/x?y", "http://localhost").await;
    let port = bench.socket.port();
    assert_eq!(moved.status(), 308);
    assert_eq!(moved.headers()["location"], format!("http://new.example:{port}/moved/x?y"));
}
