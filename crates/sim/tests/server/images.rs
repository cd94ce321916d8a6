//! Images, and the encoder for them.

use longboat_sim::Args;
use serde_json::{Value, json};

use crate::Server;

/// A question about this picture.
fn snapshot(content: &str) -> Value {
    json!({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{content}")}},
    ]}]})
}

#[tokio::test]
async fn only_a_multimodal_model_takes_images_and_their_tokens_count() {
    let path = "/v1/chat/completions";
    let plain = Server::start(&[]).await;
    let (status, refused) = plain.post(path, &snapshot("AAAA")).await;
    assert_eq!(status, 400);
    assert!(refused.to_string().contains("is not a multimodal model"), "{refused}");

    let limit = r#"{"image": 1}"#;
    let flags = ["--modalities", "image", "--tokens-per-item", "100", "--limit-mm-per-prompt", limit];
    let server = Server::start(&flags).await;
    let (status, answer) = server.post(path, &snapshot("AAAA")).await;
    assert_eq!(status, 200, "{answer}");
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(tokens(&answer) > 100, "{answer}");
    let (_, other) = server.post(path, &snapshot("BBBB")).await;
    assert!(cached(&other) < 100, "another picture is another prompt: {other}");
    let (_, again) = server.post(path, &snapshot("AAAA")).await;
    assert!(cached(&again) > 90, "the same picture is the same prompt: {again}");
    assert!((server.metric("sim:items_encoded_total").await - 2.0).abs() < f64::EPSILON);
    assert!((server.metric("vllm:mm_cache_hits_total").await - 1.0).abs() < f64::EPSILON);

    let mut two = snapshot("AAAA");
    let parts = two["messages"][0]["content"].as_array_mut().unwrap();
    parts.push(parts[1].clone());
    let (status, refused) = server.post(path, &two).await;
    assert_eq!(status, 400);
    assert!(refused.to_string().contains("At most 1 image(s) may be provided in one prompt."), "{refused}");
}

#[tokio::test]
async fn encoders_return_the_location_of_embeddings_and_lost_ones_are_computed() {
    let path = "/v1/chat/completions";
    let encoder =
        Server::start(&["--modalities", "image", "--ec-transfer-config", r#"{"ec_role": "ec_producer"}"#])
            .await;
    let (_, answer) = encoder.post(path, &snapshot("AAAA")).await;
    assert_eq!(answer["usage"]["completion_tokens"], 1, "{answer}");
    let params = &answer["ec_transfer_params"];
    assert_eq!(params.as_object().unwrap().len(), 1, "{answer}");
    let mut request = snapshot("AAAA");
    request["ec_transfer_params"] = params.clone();
    for (lost, received) in [("0", 1.0), ("100", 0.0)] {
        let consumer = r#"{"ec_role": "ec_consumer"}"#;
        let flags =
            ["--modalities", "image", "--ec-transfer-config", consumer, "--ec-transfer-loss-rate", lost];
        let server = Server::start(&flags).await;
        let answer = server.client.post(server.url(path)).json(&request).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers().contains_key("x-simulated-ec-source"), received > 0.0);
        assert!((server.metric("sim:items_received_total").await - received).abs() < f64::EPSILON, "{lost}");
        assert!((server.metric("sim:items_encoded_total").await - (1.0 - received)).abs() < f64::EPSILON);
    }
    assert!(Args::simulator(&["m", "--ec-transfer-config", r#"{"ec_role": "x"}"#]).is_err());
    assert!(Args::simulator(&["m", "--modalities", "smell"]).is_err());
}
