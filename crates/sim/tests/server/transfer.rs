//! Prefill and decode apart.

use serde_json::{Value, json};

use crate::{Server, chat};

#[tokio::test]
async fn a_prompt_that_is_not_cached_enough_is_answered_with_nothing_and_is_not_cached_by_that() {
    let server = Server::start(&[]).await;
    let mut request = chat(&"Why is the sea salty? ".repeat(20));
    request["cache_hit_threshold"] = json!(0.5);
    for _ in 0..2 {
        let (status, answer) = server.post("/v1/chat/completions", &request).await;
        assert_eq!((status, &answer["choices"][0]["finish_reason"]), (200, &json!("cache_threshold")));
        assert_eq!(answer["usage"]["completion_tokens"], 0);
    }
    request["cache_hit_threshold"] = json!(0);
    let (_, answer) = server.post("/v1/chat/completions", &request).await;
    assert_ne!(answer["choices"][0]["finish_reason"], "cache_threshold");
    request["cache_hit_threshold"] = json!(0.5);
    request["stream"] = json!(true);
    let chunks = server.events("/v1/chat/completions", &request).await;
    let reasons: Vec<_> = chunks.iter().filter_map(|c| c["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons.len(), 1);
    assert_ne!(reasons, ["cache_threshold"], "the prompt is cached now");
}

#[tokio::test]
async fn the_bootstrap_endpoint_names_the_engine_and_another_start_is_another_engine() {
    let mut names = Vec::new();
    for _ in 0..2 {
        let server = Server::start(&[]).await;
        let list: Value = server.client.get(server.url("/query")).send().await.unwrap().json().await.unwrap();
        names.push(list["0"]["engine_id"].as_str().unwrap().to_owned());
    }
    assert_ne!(names[0], names[1]);
}
