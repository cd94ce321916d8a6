//! Tests of traces over TLS, to a collector that requires client certificates.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "../traces/collector.rs"]
#[expect(dead_code, reason = "shared with the tests of traces")]
mod collector;

use std::{path::Path, process::Command};

use collector::Collector;
use longboat_telemetry::{
    logging::{self, LogOptions},
    traces::{Otlp, SPANS, SpanCounts, counts},
};
use longboat_tls::{CertificateAuthority, KeyPair, LeafRequest};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Sends one span to the collector that the environment names. Variables belong to a process, so this test runs in its own.
#[tokio::test]
#[ignore = "run by the test below, in a process of its own"]
async fn one_span() {
    let traces = Otlp::default().traces("test").unwrap();
    logging::init(&LogOptions { default_filter: "warn".to_owned(), ..LogOptions::default() }, Some(&traces));
    drop(tracing::trace_span!(target: SPANS, "one"));
    traces.start().unwrap().end().await;
    assert_eq!(counts(), SpanCounts { sent: 1, dropped: 0 });
}

fn leaf(authority: &CertificateAuthority, name: &str) -> KeyPair {
    let request = LeafRequest {
        common_name: name.to_owned(),
        organization: String::new(),
        dns_names: vec!["localhost".to_owned()],
        ips: Vec::new(),
        days: 1,
        client_auth: true,
    };
    authority.issue(&request).unwrap()
}

fn identity(pair: &KeyPair) -> Identity {
    Identity::from_pem(&pair.certificate_pem, &pair.key_pem)
}

/// Whether the collector accepted the span with these variables. Also returns the output.
fn sends(url: &str, folder: &Path, files: &[(&str, &str)]) -> (bool, String) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "one_span", "--ignored", "--nocapture"]);
    program.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    for (variable, file) in files {
        program.env(variable, folder.join(file));
    }
    let output = program.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_with_tls_is_trusted_by_its_authority_and_shown_our_certificate() {
    longboat_tls::install_default_provider();
    let (authority, other) =
        (CertificateAuthority::new("ours").unwrap(), CertificateAuthority::new("other").unwrap());
    let tls = ServerTlsConfig::new()
        .identity(identity(&leaf(&authority, "collector")))
        .client_ca_root(Certificate::from_pem(authority.pem()));
    let collector = Collector::with_tls(tls).await;
    let folder = tempfile::tempdir().unwrap();
    let own = leaf(&authority, "controller");
    for (file, text) in [
        ("ca.pem", authority.pem()),
        ("other.pem", other.pem()),
        ("own.pem", own.certificate_pem.clone()),
        ("own.key", own.key_pem.clone()),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let pair = [
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "own.pem"),
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "own.key"),
    ];
    let with = |authority| [&[("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)][..], &pair].concat();

    for (refused, files) in [
        ("of another authority", with("other.pem")),
        ("of none that the system knows", pair.to_vec()),
        ("without a certificate to show", with("ca.pem")[..1].to_vec()),
    ] {
        let (sent, said) = sends(&collector.url, folder.path(), &files);
        assert!(!sent && said.contains("The collector does not accept spans"), "{refused}: {said}");
    }
    assert!(collector.arrived().is_empty());

    let (sent, said) = sends(&collector.url, folder.path(), &with("ca.pem"));
    assert!(sent, "{said}");
    assert!(said.contains("http/protobuf"), "{said}");
    assert_eq!(collector.arrived().len(), 1);
}
