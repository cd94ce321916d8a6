//! Client certificates: those that a Gateway demands, and the one that it shows.

use longboat_tls::{CertificateAuthority, ClientCertificates, KeyPair, LeafRequest, ServerOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    traffic::{Bench, route, tables},
    *,
};

const HOST: &str = "a.example";

fn issued(authority: &CertificateAuthority) -> KeyPair {
    let request =
        LeafRequest { dns_names: vec![HOST.into()], days: 1, client_auth: true, ..LeafRequest::default() };
    authority.issue(&request).unwrap()
}

fn authority(name: &str, of: &CertificateAuthority) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {"ca.crt": of.pem()}})
}

/// Sends a request with this certificate. Returns whether it was answered.
async fn is_answered(socket: SocketAddr, own: Option<&KeyPair>) -> bool {
    let config = longboat_tls::insecure_client_config(&[b"http/1.1"]);
    let config = match own {
        Some(own) => longboat_tls::with_client_certificate(&config, own).unwrap(),
        None => config,
    };
    let stream = TcpStream::connect(socket).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from(HOST).unwrap();
    let Ok(mut stream) = tokio_rustls::TlsConnector::from(config).connect(name, stream).await else {
        return false;
    };
    // A client of TLS 1.3 hears only after its handshake that its certificate was refused.
    let request = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer.starts_with("HTTP/1.1 ")
}

#[tokio::test]
async fn clients_need_a_certificate_of_the_authorities_of_the_moment() {
    let (one, other) =
        (CertificateAuthority::new("one").unwrap(), CertificateAuthority::new("other").unwrap());
    let (of_one, of_other) = (issued(&one), issued(&other));
    let (own, _) = secret("own", HOST);
    let objects = |port: u16, ca: Option<&CertificateAuthority>| {
        let reference = json!({"group": "", "kind": "ConfigMap", "name": "ca"});
        let tls =
            ca.map(|_| json!({"frontend": {"default": {"validation": {"caCertificateRefs": [reference]}}}}));
        let listener = json!({"name": "https", "port": port, "protocol": "HTTPS",
            "tls": {"certificateRefs": [{"name": "own"}]}});
        let gateway = json!({"kind": "Gateway", "metadata": {"name": "g"}, "spec": {"listeners": [listener], "tls": tls}});
        let ca = ca.map(|ca| authority("ca", ca));
        [gateway, own.clone()].into_iter().chain(ca).collect::<Vec<_>>()
    };
    let bench = Bench::start(true, |port| objects(port, Some(&one))).await;
    let mut seen = Vec::new();
    for ca in [Some(&one), Some(&other), None] {
        bench.tables.store(Arc::new(tables(bench.socket, objects(bench.socket.port(), ca))));
        for own in [None, Some(&of_one), Some(&of_other)] {
            seen.push(is_answered(bench.socket, own).await);
        }
    }
    assert_eq!(seen, [false, true, false, false, false, true, true, true, true]);
}

#[tokio::test]
async fn a_back_end_with_a_policy_sees_the_certificate_of_the_gateway() {
    let ca = CertificateAuthority::new("ca").unwrap();
    let (of_gateway, of_back_end) = (issued(&ca), issued(&ca));
    let shown = of_gateway.certificate_pem.clone();
    let bytes = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap();
    longboat_tls::install_default_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let back_end = listener.local_addr().unwrap();
    let options =
        ServerOptions { clients: ClientCertificates::SignedBy(ca.pem().into()), ..ServerOptions::default() };
    let certificate = longboat_tls::ServerCertificate::new(&of_back_end).unwrap();
    let config = longboat_tls::server_config_by_name(&options, move |_| vec![certificate.clone()]).unwrap();
    let seen = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = tokio_rustls::TlsAcceptor::from(config).accept(stream).await.unwrap();
        let seen = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        seen
    });
    let bench = Bench::start(false, |port| {
        let data = json!({"tls.crt": bytes(&of_gateway.certificate_pem), "tls.key": bytes(&of_gateway.key_pem)});
        let listener = json!({"name": "http", "port": port, "protocol": "HTTP"});
        let tls = json!({"backend": {"clientCertificateRef": {"name": "own"}}});
        let mut all = vec![
            json!({"kind": "Gateway", "metadata": {"name": "g"}, "spec": {"listeners": [listener], "tls": tls}}),
            json!({"kind": "Secret", "metadata": {"name": "own"}, "data": data}),
            authority("ca", &ca),
            json!({"kind": "BackendTLSPolicy", "metadata": {"name": "p"}, "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": "svc"}],
                "validation": {"hostname": HOST, "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]},
            }}),
            route("r", &json!({"backendRefs": [{"name": "svc", "port": 80}]})),
        ];
        all.extend(service("svc", back_end, None));
        all
    })
    .await;
    let mut stream = TcpStream::connect(bench.socket).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    let expected = rustls::pki_types::CertificateDer::from(seen.await.unwrap());
    let read = rustls::pki_types::pem::PemObject::from_pem_slice(shown.as_bytes()).unwrap();
    assert_eq!(expected, read);
}
