//! Disaggregated encoder, prefill and decode behind the routing sidecar. The engines' metrics show which engine encoded an
//! image.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

use serde_json::json;
use tempfile::TempDir;

use crate::{
    http,
    local_cluster::LocalCluster,
    program::Running,
    proof::{counted, says_of},
    tools,
    wait::until,
};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a role of the binary on a free port.
fn start(role: &str, arguments: &[String]) -> (Running, u16) {
    let port = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.arg(role).args(arguments).arg(format!("--port={port}"));
    command.env("LONGBOAT_POD_IP", "127.0.0.1").stdin(Stdio::null());
    (Running::start(&mut command), port)
}

fn counted_at(port: u16, series: &str) -> f64 {
    let page = http::get(&format!("http://127.0.0.1:{port}/metrics")).body;
    let line =
        page.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn an_image_is_encoded_once_by_the_encoder_with_each_connector_and_twice_where_it_gets_lost() {
    let folder = TempDir::new().unwrap();
    for (connector, lost) in [("ec-nixl", 0), ("ec-example", 0), ("ec-nixl", 100), ("ec-example", 100)] {
        let case = format!("{connector}, {lost} % lost");
        let engine = |role: &str| {
            let mut config = json!({"ec_connector": connector, "ec_role": role});
            if connector == "ec-example" {
                let path = folder.path().join(lost.to_string());
                config["ec_connector_extra_config"] = json!({"shared_storage_path": path});
            }
            let flags = ["m", "--modalities=image"].map(str::to_owned).into_iter();
            let more = [format!("--ec-transfer-config={config}"), format!("--ec-transfer-loss-rate={lost}")];
            start("sim", &flags.chain(more).collect::<Vec<_>>())
        };
        let ((_e, encode), (_p, prefill), (_d, decode)) =
            (engine("ec_producer"), engine("ec_consumer"), engine("ec_consumer"));
        let flags = [
            format!("--model-server-port={decode}"),
            format!("--ec-connector={connector}"),
            "--secure-proxy=false".to_owned(),
        ];
        let (_sidecar, sidecar) = start("sidecar", &flags);
        let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let body = json!({"model": "m", "max_tokens": 4, "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
        ]});
        for port in [encode, prefill, decode] {
            let url = format!("http://127.0.0.1:{port}/health");
            until(&format!("{case}: engine on {port}"), || {
                http::block(async { http::client().get(&url).send().await.ok() })
            });
        }
        let answer = until(&format!("{case}: the sidecar"), || {
            http::block(async {
                let request = http::client()
                    .post(format!("http://127.0.0.1:{sidecar}/v1/chat/completions"))
                    .header("x-prefiller-host-port", format!("127.0.0.1:{prefill}"))
                    .header("x-encoder-hosts-ports", format!("127.0.0.1:{encode}"))
                    .json(&body);
                Some(http::read(request.send().await.ok()?).await)
            })
        });
        assert_eq!(answer.status, 200, "{case}: {answer:?}");
        let has_come = if lost == 0 { 1.0 } else { 0.0 };
        let is = |port: u16, series: &str, expected: f64| {
            let found = counted_at(port, series);
            assert!((found - expected).abs() < f64::EPSILON, "{case}: {series} is {found}, not {expected}");
        };
        is(encode, "sim:items_encoded_total", 1.0);
        is(prefill, "sim:items_received_total", has_come);
        is(prefill, "sim:items_encoded_total", 1.0 - has_come);
        // The KV cache came from the prefill engine, so the decode engine needs no image embedding.
        is(decode, "vllm:mm_cache_queries_total", 0.0);
    }
}

#[test]
fn under_up_a_picture_goes_through_encoder_prefill_and_decode() {
    if tools::kubectl().is_none() {
        return;
    }
    let manifest = tools::root().join("tests/local/encoders.yaml");
    let world = LocalCluster::start(&[manifest.to_str().unwrap()]);
    says_of(&world, "pictures", "KVTransferObserved", "True", "KVTransferred");
    // Nothing waits for a Deployment of the user's.
    world.ask(&["rollout", "status", "deployment/pictures-encode", "--timeout=120s"]);
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let body = json!({"model": "org/model", "max_tokens": 4, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
    ]});
    let counts = |role: &str, series: &str| counted(&world, "pictures", role, series);
    until("the picker knows the encoder", || {
        let answer = http::post(&format!("{}/v1/chat/completions", world.url), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.headers.contains_key("x-simulated-kv-source"), "{answer:?}");
        counts("encode", "sim:items_encoded_total") > 0.0
    });
    assert!(counts("prefill", "sim:items_received_total") > 0.0, "its embedding came to the prefill pod");
    assert!(counts("decode", "vllm:mm_cache_queries_total") < 0.5, "whose KV cache came to the decode pod");
}
