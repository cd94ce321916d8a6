//! The sidecar with two simulators and every connector. One engine computes the prompt and the other decodes. The tests also
//! cover the failures of each connector.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::fixture::{CHAT, Engine, SOURCE, SidecarFixture, Way, chat, way};

/// The connectors whose decoders are told, or know, that the prompt is computed elsewhere.
pub(crate) fn ways() -> Vec<Way> {
    let write = ["--moriio-write-mode", "--moriio-local-pod-ip=127.0.0.1"];
    vec![
        way("nixlv2", &[]),
        way("nixlv2 in chunks", &["--decode-chunk-size=4"]),
        way("MoRI-IO", &write),
        way("MoRI-IO at once", &[&write[..], &["--moriio-parallel-dispatch"]].concat()),
        way("mooncake", &["--kv-connector=mooncake", "--mooncake-bootstrap-port={prefill}"]),
        way("offloading", &["--kv-connector=offloading"]),
        Way {
            name: "sglang",
            sidecar: vec!["--kv-connector=sglang"],
            prefill: vec!["--disaggregation-mode", "prefill"],
            decode: vec!["--disaggregation-mode", "decode"],
        },
    ]
}

/// Waits until the prefiller has computed prompts. The client's response does not wait for the prefiller.
async fn until_computed(engine: &Engine, prompts: f64) {
    for _ in 0..500 {
        if engine.computed().await >= prompts {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{prompts} prompts were to be computed");
}

#[tokio::test]
async fn one_engine_computes_the_prompt_and_the_other_decodes() {
    for way in ways() {
        let world = SidecarFixture::start(&way, &[], &[]).await;
        let answer = world.ask(&chat()).await;
        assert_eq!(answer.status, 200, "{}: {}", way.name, answer.body);
        if !way.name.contains("chunks") {
            // The decoder names where the cache came from. It names nothing if it computes the prompt itself.
            assert_eq!(answer.source.as_deref(), Some("127.0.0.1"), "{}", way.name);
            assert!(answer.body["usage"]["completion_tokens"].as_u64() > Some(1), "{}", way.name);
            until_computed(&world.prefill, 1.0).await;
        }
        assert_eq!(answer.body["usage"]["completion_tokens"], 12, "{}", way.name);
    }
}

#[tokio::test]
async fn a_cache_that_does_not_come_costs_a_second_prefill_and_nobody_says_so() {
    for way in ways() {
        let world = SidecarFixture::start(&way, &[], &["--kv-transfer-loss-rate", "100"]).await;
        let answer = world.ask(&chat()).await;
        assert_eq!((answer.status, answer.source), (200, None), "{}", way.name);
        until_computed(&world.prefill, 1.0).await;
        assert!(world.decode.computed().await >= 1.0, "{}", way.name);
    }
}

#[tokio::test]
async fn without_a_prefiller_the_decoder_does_both_where_it_may() {
    for mut way in ways() {
        way.prefill.extend(["--failure-injection-rate", "100", "--failure-types", "server_error"]);
        // With this latency, decoders wait long for a cache.
        let world = SidecarFixture::start(
            &way,
            &["--decode-on-prefill-failure"],
            &["--kv-cache-transfer-latency", "2s"],
        )
        .await;
        let answer = world.ask(&chat()).await;
        assert_eq!((answer.status, answer.source), (200, None), "{}: {}", way.name, answer.body);
        let world = SidecarFixture::start(&way, &[], &[]).await;
        let answer = world.ask(&chat()).await;
        let is_told = matches!(way.name, "mooncake" | "offloading" | "sglang");
        assert_eq!(answer.status, if is_told { 200 } else { 503 }, "{}", way.name);
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_both_legs() {
    for mut way in ways() {
        way.prefill.extend(["--time-to-first-token", "60s"]);
        let world = SidecarFixture::start(&way, &[], &["--kv-cache-transfer-latency", "60s"]).await;
        let running = "vllm:num_requests_running";
        let asking = tokio::spawn(world.request(&chat()).send());
        for _ in 0..500 {
            if world.prefill.metric(running).await > 0.0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(world.prefill.metric(running).await > 0.0, "{}", way.name);
        asking.abort();
        let mut left = f64::MAX;
        for _ in 0..500 {
            left = world.prefill.metric(running).await + world.decode.metric(running).await;
            if left < 1.0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(left < 1.0, "{}: {left} legs go on", way.name);
    }
}

#[tokio::test]
async fn the_first_piece_of_an_answer_leaves_when_it_arrives() {
    let mut all = ways();
    all.push(way("shared-storage", &["--kv-connector=shared-storage"]));
    for way in all.into_iter().filter(|way| !way.name.contains("chunks")) {
        // A decoder's first token is the second one of the answer, so it takes this long.
        let world = SidecarFixture::start(&way, &[], &["--inter-token-latency", "3s"]).await;
        let mut request = chat();
        request["stream"] = json!(true);
        let mut answer = world.request(&request).send().await.unwrap();
        let first = answer.chunk().await.unwrap().unwrap();
        assert!(first.starts_with(b"data: {"), "{}: {first:?}", way.name);
        let running = world.decode.metric("vllm:num_requests_running").await;
        assert!(running > 0.0, "{}: the rest is still to come", way.name);
    }
}

#[tokio::test]
async fn a_body_that_has_to_be_held_has_a_limit_and_one_that_is_passed_on_has_none() {
    let world = SidecarFixture::start(&way("nixlv2", &["--max-request-body-mib=1"]), &[], &[]).await;
    let mut request = chat();
    request["unknown"] = json!("x".repeat(1 << 20));
    let refused = world.ask(&request).await;
    assert_eq!((refused.status, &refused.body["code"]), (413, &json!(413)), "{}", refused.body);
    assert!(world.prefill.computed().await < 1.0 && world.decode.computed().await < 1.0);
    // A request without `Content-Length`.
    let pieces = request.to_string().into_bytes();
    let pieces = pieces.chunks(1 << 16).map(|piece| Ok::<_, std::io::Error>(piece.to_vec()));
    let stream = futures::stream::iter(pieces.collect::<Vec<_>>());
    let chunked = world.request(&json!({})).body(reqwest::Body::wrap_stream(stream)).send().await.unwrap();
    assert_eq!(chunked.status(), 413);
    let url = format!("http://127.0.0.1:{}{CHAT}", world.sidecar);
    let passed = world.client.post(url).json(&request).send().await.unwrap();
    assert_eq!(passed.status(), 200, "the engine's own limit counts");
}

#[tokio::test]
async fn an_unknown_rank_is_refused_before_any_engine_is_asked() {
    // A pod with one rank checks the header, too.
    for ranks in ["--data-parallel-size=1", "--data-parallel-size=2"] {
        let world = SidecarFixture::start(&way("nixlv2", &[ranks]), &[], &[]).await;
        for named in ["10.9.9.9:1", "garbage"] {
            let asked =
                world.request(&chat()).header("x-data-parallel-host-port", named).send().await.unwrap();
            assert_eq!(asked.status(), 400, "{ranks} {named}");
            assert!(asked.text().await.unwrap().contains("x-data-parallel-host-port"));
        }
        assert!(world.prefill.computed().await < 1.0 && world.decode.computed().await < 1.0);
    }
}

/// Engines that share a private folder.
fn sharing() -> (Way, PathBuf) {
    let folder = std::env::temp_dir().join(format!("longboat-{}", uuid::Uuid::new_v4()));
    let config = json!({"kv_connector_extra_config": {"shared_storage_path": folder}}).to_string();
    let config: &'static str = config.leak();
    let way = Way {
        name: "shared-storage",
        sidecar: vec!["--kv-connector=shared-storage"],
        prefill: vec!["--kv-transfer-config", config],
        decode: vec!["--kv-transfer-config", config],
    };
    (way, folder)
}

#[tokio::test]
async fn what_is_in_a_shared_storage_and_does_not_come_is_computed_again() {
    let (way, folder) = sharing();
    let world = SidecarFixture::start(&way, &[], &["--kv-transfer-loss-rate", "100"]).await;
    for threshold in [None, Some(0.5)] {
        let mut request = chat();
        request["messages"][0]["content"] =
            json!(format!("{threshold:?} {}", "Why is the sea salty? ".repeat(20)));
        if let Some(threshold) = threshold {
            request["cache_hit_threshold"] = json!(threshold);
        }
        let answer = world.ask(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["choices"][0]["finish_reason"], "length", "{}", answer.body);
        assert_eq!(answer.body["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "{}", answer.body);
    }
    assert!((world.prefill.computed().await - 2.0).abs() < 0.5, "each prompt was computed elsewhere");
    remove(&folder);
}

#[tokio::test]
async fn engines_that_share_a_storage_find_the_prompt_there() {
    let (way, folder) = sharing();
    let world = SidecarFixture::start(&way, &[], &[]).await;
    let mut request = chat();
    request["cache_hit_threshold"] = json!(0.5);
    for prefills in [1.0, 1.0] {
        let answer = world.ask(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["choices"][0]["finish_reason"], "length", "{}", answer.body);
        let cached = &answer.body["usage"]["prompt_tokens_details"]["cached_tokens"];
        assert!(cached.as_u64() > Some(16), "{}", answer.body);
        assert!((world.prefill.computed().await - prefills).abs() < 0.5, "the second request is cached");
    }
    // As in vLLM, blocks from the storage are not hits of the engine's own cache.
    let found = world.decode.metric("vllm:external_prefix_cache_hits_total").await;
    let asked = world.decode.metric("vllm:external_prefix_cache_queries_total").await;
    assert!(found > 16.0 && found <= asked, "{found} of {asked}");
    let own = world.decode.metric("vllm:prefix_cache_hits_total").await;
    let queried = world.decode.metric("vllm:prefix_cache_queries_total").await;
    assert!(
        own + asked <= queried + 0.5 && own > 16.0,
        "{own} own hits of {queried}, others asked for {asked}"
    );
    remove(&folder);
}

fn remove(folder: &Path) {
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_decoder_pulls_from_where_the_prompt_is_cached() {
    let world = SidecarFixture::start(&way("offloading", &["--kv-connector=offloading"]), &[], &[]).await;
    let url = format!("http://127.0.0.1:{}{CHAT}", world.sidecar);
    let pulled = world.client.post(url).header("x-kv-cache-source-host-port", "10.9.9.9:8000").json(&chat());
    let pulled = pulled.send().await.unwrap();
    assert_eq!(pulled.headers().get(SOURCE).unwrap(), "10.9.9.9");
}
