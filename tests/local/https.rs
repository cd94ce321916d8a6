//! A service behind a Gateway with HTTPS.

use std::{fs, process::Command};

use serde_json::json;

use crate::{
    local_cluster::{LocalCluster, example, up_to_its_end},
    program, tools,
};

const HOST: &str = "models.example.com";

/// A service behind a Gateway whose certificate is in the Secret `models-tls`.
fn manifest() -> String {
    let service =
        fs::read_to_string(example()).unwrap().replace("gateway: {}", "gateway: {refs: [{name: models}]}");
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "models"},
        "spec": {"gatewayClassName": "longboat", "listeners": [{
            "name": "https", "protocol": "HTTPS", "port": 8443, "hostname": HOST,
            "tls": {"certificateRefs": [{"name": "models-tls"}]},
        }]},
    });
    format!("{service}\n---\n{gateway}\n")
}

fn secret(certificate: &str, key: &str) -> String {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": "models-tls"},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    format!("---\n{secret}\n")
}

#[test]
fn the_printed_request_and_the_prompt_reach_a_gateway_with_https() {
    if tools::kubectl().is_none() {
        return;
    }
    longboat_tls::install_default_provider();
    let request = longboat_tls::LeafRequest { dns_names: vec![HOST.into()], days: 1, ..Default::default() };
    let pair = longboat_tls::self_signed(&request).unwrap();
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("https.yaml");
    fs::write(&file, manifest() + &secret(&pair.certificate_pem, &pair.key_pem)).unwrap();
    let file = file.to_str().unwrap();
    let ended = up_to_its_end(&[file, "--port", "0", "--once", "--prompt", "Hello"]);
    assert!(ended.status.success() && !ended.stdout.trim().is_empty(), "{ended:#?}");

    let world = LocalCluster::start(&[file]);
    let said = world.running.stderr();
    let (_, rest) = said.split_once("  curl ").unwrap();
    let command = rest.split("\n\n").next().unwrap();
    assert!(command.contains(&format!("--resolve {HOST}:8443:")), "{said}");
    let command = command.split("\n  #").next().unwrap();
    let answer = program::run(Command::new("sh").args(["-c", &format!("curl -sS {command}")])).ok();
    assert!(answer.contains("\"choices\""), "{answer}");
    // No DNS knows the host, and the doctor asks it nevertheless.
    let doctor = Command::new(env!("CARGO_BIN_EXE_longboat"))
        .arg("doctor")
        .env("KUBECONFIG", &world.kubeconfig)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&doctor.stderr);
    assert!(doctor.status.success() && said.contains("No problems found."), "{doctor:#?}");
}

#[test]
fn a_certificate_that_cannot_be_used_ends_up_at_once() {
    for (more, said) in [
        (String::new(), "there is no Secret default/models-tls of type kubernetes.io/tls"),
        (secret("junk", "junk"), "Secret default/models-tls: "),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("https.yaml");
        fs::write(&file, manifest() + &more).unwrap();
        let ended = up_to_its_end(&[file.to_str().unwrap(), "--port", "0", "--once", "--timeout", "600"]);
        assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
        assert!(ended.stderr.contains(said) && ended.stderr.contains("cannot become ready"), "{ended:#?}");
    }
}
