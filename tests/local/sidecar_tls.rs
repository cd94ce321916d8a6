//! Each connection type of the routing sidecar verifies the peer's certificate, and follows changes of the trusted CAs.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use longboat_tls::{CertificateAuthority, KeyPair, LeafRequest, self_signed, self_signed_with_key};
use serde_json::json;
use tempfile::TempDir;

use crate::{http, program::Running, wait::until};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn role(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.args(arguments).env("LONGBOAT_POD_IP", "127.0.0.1").stdin(Stdio::null());
    command
}

/// A certificate for this DNS name, and for the address of the test if it is to have one.
fn leaf(name: &str, ip: Option<&str>) -> LeafRequest {
    let ips = ip.map(|ip| ip.parse().unwrap()).into_iter().collect();
    LeafRequest { dns_names: vec![name.into()], ips, days: 1, ..LeafRequest::default() }
}

/// Starts a simulator, with this certificate if one is given.
fn engine(folder: &Path, name: &str, pair: Option<&KeyPair>) -> (Running, u16) {
    let port = free_port();
    let mut arguments =
        vec!["sim".to_owned(), "m".to_owned(), format!("--port={port}"), "--modalities=image".to_owned()];
    if let Some(pair) = pair {
        for (flag, text) in [("ssl-certfile", &pair.certificate_pem), ("ssl-keyfile", &pair.key_pem)] {
            let file = folder.join(format!("{name}-{flag}"));
            fs::write(&file, text).unwrap();
            arguments.push(format!("--{flag}={}", file.display()));
        }
    }
    (Running::start(&mut role(&arguments)), port)
}

/// Sends a request that names all three stages, with an image if `stage` is the encoder. Returns status and body.
fn ask(stage: &str, sidecar: u16, prefill: u16, encode: u16) -> Option<(u16, String)> {
    let mut content = vec![json!({"type": "text", "text": "What is this?"})];
    if stage == "encoder" {
        content.push(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}));
    }
    let body = json!({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": content}]});
    http::block(async {
        let request = http::client()
            .post(format!("http://127.0.0.1:{sidecar}/v1/chat/completions"))
            .header("x-prefiller-host-port", format!("127.0.0.1:{prefill}"))
            .header("x-encoder-hosts-ports", format!("127.0.0.1:{encode}"))
            .json(&body);
        // Returns `None` if the sidecar does not listen yet.
        let answer = http::read(request.send().await.ok()?).await;
        Some((answer.status, answer.body))
    })
}

#[test]
fn each_leg_takes_only_certificates_that_are_trusted_now() {
    longboat_tls::install_default_provider();
    let (ours, other) =
        (CertificateAuthority::new("ours").unwrap(), CertificateAuthority::new("other").unwrap());
    for stage in ["prefiller", "decoder", "encoder"] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        let issued = ours.issue(&leaf("localhost", Some("127.0.0.1"))).unwrap();
        let of = |name: &str| engine(folder, name, (name == stage).then_some(&issued));
        let ((_p, prefill), (_d, decode), (_e, encode)) = (of("prefiller"), of("decoder"), of("encoder"));
        let trusted = folder.join("ca.crt");
        fs::write(&trusted, other.pem()).unwrap();
        let start = |more: &str| {
            let port = free_port();
            let mut flags = vec![
                "sidecar".to_owned(),
                format!("--port={port}"),
                format!("--model-server-port={decode}"),
                format!("--enable-tls={stage}"),
                "--secure-proxy=false".to_owned(),
                "--ec-connector=ec-example".to_owned(),
            ];
            flags.extend((!more.is_empty()).then(|| more.to_owned()));
            (Running::start(role(&flags).env("SSL_CERT_FILE", &trusted)), port)
        };
        let answer = |sidecar: u16| ask(stage, sidecar, prefill, encode);
        let answered = |sidecar: u16| answer(sidecar).filter(|(status, _)| *status == 200);

        let (_careless, careless) = start(&format!("--tls-insecure-skip-verify={stage}"));
        until(&format!("{stage}: an answer to who verifies nothing"), || answered(careless));
        let (_careful, careful) = start("");
        let (refused, body) = until("the sidecar answers", || answer(careful));
        assert_eq!(refused, 502, "{stage}: {body}");
        assert!(body.contains("certificate"), "{stage}: {body}");

        // Replaces the file atomically, as Kubernetes does for the files of a Secret.
        let new = folder.join("new");
        fs::write(&new, ours.pem()).unwrap();
        fs::rename(&new, &trusted).unwrap();
        until(&format!("{stage}: an answer once its authority is trusted"), || answered(careful));
    }
}

#[test]
fn pods_of_a_service_trust_each_other_before_their_certificate_has_their_address() {
    longboat_tls::install_default_provider();
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let former = self_signed(&leaf("svc", None)).unwrap();
    let renewed = self_signed_with_key(&leaf("svc", Some("10.0.0.1")), &former.key_pem).unwrap();
    let foreign = self_signed(&leaf("svc", Some("127.0.0.1"))).unwrap();
    let ((_d, decode), (_n, new)) = (engine(folder, "decoder", None), engine(folder, "new", Some(&former)));
    let (_f, other) = engine(folder, "other", Some(&foreign));
    let trusted = folder.join("tls.crt");
    fs::write(&trusted, &renewed.certificate_pem).unwrap();
    let port = free_port();
    let flags = [
        "sidecar".to_owned(),
        format!("--port={port}"),
        format!("--model-server-port={decode}"),
        "--enable-tls=prefiller".to_owned(),
        "--secure-proxy=false".to_owned(),
    ];
    let _sidecar = Running::start(role(&flags).env("SSL_CERT_FILE", &trusted));
    let (status, body) = until("the sidecar answers", || {
        // Engines that do not listen yet are no refusals.
        ask("prefiller", port, new, 0).filter(|(_, body)| !body.contains("refused"))
    });
    assert_eq!(status, 200, "{body}");
    let (status, body) = until("the other engine answers", || {
        ask("prefiller", port, other, 0).filter(|(_, body)| !body.contains("refused"))
    });
    assert_eq!(status, 502, "the key is another one: {body}");
    assert!(body.contains("certificate"), "{body}");
}
