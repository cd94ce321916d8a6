//! Answers: their text, length, pace and probabilities.

use std::time::Duration;

use futures::StreamExt;
use longboat_sim::Args;
use serde_json::{Value, json};

use crate::{Server, chat, with};

#[tokio::test]
async fn streamed_and_complete_answers_have_the_same_text_and_usage() {
    let server = Server::start(&[]).await;
    let (status, answer) = server.post("/v1/chat/completions", &chat("Why is the sea salty?")).await;
    assert_eq!(status, 200, "{answer}");
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(!text.is_empty());

    let mut request = chat("Why is the sea salty?");
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let chunks = server.events("/v1/chat/completions", &request).await;
    let streamed: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, text);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let (last, body) = chunks.split_last().unwrap();
    assert_eq!(last["usage"]["completion_tokens"], answer["usage"]["completion_tokens"]);
    assert_eq!(last["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
    assert_eq!(last["choices"], json!([]));
    assert!(body.iter().all(|chunk| chunk["usage"].is_null()));
    assert_eq!(body.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn completions_take_lists_stops_limits_and_echo() {
    let server = Server::start(&["--mode", "echo"]).await;
    let (_, answer) = server
        .post(
            "/v1/completions",
            &json!({"model": "alias", "prompt": "one two three four", "stop": [" three"]}),
        )
        .await;
    assert_eq!(answer["choices"][0]["text"], "one two");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let (_, answer) =
        server.post("/v1/completions", &json!({"prompt": "one two three", "max_tokens": 1})).await;
    assert_eq!(
        (&answer["choices"][0]["text"], &answer["choices"][0]["finish_reason"]),
        (&json!("one"), &json!("length"))
    );
    let (_, answer) = server
        .post("/v1/completions", &json!({"prompt": ["a b", "c d"], "n": 2, "echo": true, "max_tokens": 1}))
        .await;
    let texts: Vec<_> =
        answer["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a ba", "a ba", "c dc", "c dc"]);
    assert_eq!(answer["usage"]["completion_tokens"], 4);
    let body = json!({"prompt": ["a b c", "d e f"], "echo": true, "max_tokens": 2, "stream": true});
    let chunks = server.events("/v1/completions", &body).await;
    let parts = |index: usize| {
        let choices =
            chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
        choices.map(|choice| choice["text"].as_str().unwrap()).collect::<Vec<_>>()
    };
    // The prompt comes with the first token.
    assert_eq!((parts(0), parts(1)), (vec!["a b ca", " b"], vec!["d e fd", " e"]));
    let (status, answer) = server.post("/v1/completions", &json!({"prompt": [1, 2], "echo": true})).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("echo")), "{answer}");
}

#[tokio::test]
async fn prompts_of_a_list_that_the_engine_has_no_room_for_wait_for_the_others() {
    for limit in [["--max-num-seqs", "2"], ["--kv-cache-size", "3"]] {
        let server = Server::start(&[&["--mode", "echo", "--block-size", "4"], &limit[..]].concat()).await;
        let prompts = ["a b c d e", "f g h i j", "k l m n o", "p q r s t", "u v w x y"];
        let body = json!({"prompt": prompts, "max_tokens": 3});
        let response = server.post("/v1/completions", &body);
        let (status, answer) = tokio::time::timeout(Duration::from_mins(1), response).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        let choices = answer["choices"].as_array().unwrap();
        let texts: Vec<_> = choices.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["a b c", "f g h", "k l m", "p q r", "u v w"]);
        assert_eq!(answer["usage"]["completion_tokens"], 15);
        assert!(server.metric("vllm:num_requests_running").await.abs() < f64::EPSILON);
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_work() {
    let server = Server::start(&["--inter-token-latency", "20ms"]).await;
    let mut request = chat("x");
    request["stream"] = json!(true);
    request["ignore_eos"] = json!(true);
    request["max_tokens"] = json!(500);
    let response =
        server.client.post(server.url("/v1/chat/completions")).json(&request).send().await.unwrap();
    let mut body = response.bytes_stream();
    body.next().await.unwrap().unwrap();
    assert!((server.metric("vllm:num_requests_running").await - 1.0).abs() < f64::EPSILON);
    drop(body);
    for _ in 0..100 {
        if server.metric("vllm:num_requests_running").await.abs() < f64::EPSILON {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the abandoned request is still running");
}

#[tokio::test]
async fn tokens_leave_one_by_one_and_a_stop_lets_answers_finish() {
    let server = Server::start(&["--inter-token-latency", "30ms"]).await;
    let mut request = chat("x");
    request["stream"] = json!(true);
    request["ignore_eos"] = json!(true);
    request["max_tokens"] = json!(10);
    let response =
        server.client.post(server.url("/v1/chat/completions")).json(&request).send().await.unwrap();
    let mut chunks = response.bytes_stream();
    let first = chunks.next().await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first).contains("[DONE]"), "the first chunk holds the whole answer");
    server.shutdown.cancel();
    let mut rest = Vec::new();
    while let Some(chunk) = chunks.next().await {
        rest.extend(chunk.unwrap());
    }
    assert!(String::from_utf8_lossy(&rest).ends_with("data: [DONE]\n\n"));
    server.task.await.unwrap();
}

#[tokio::test]
async fn models_tokenize_and_prefix_hits_are_reported() {
    let server = Server::start(&["--lora-modules", "tuned=/path"]).await;
    let models: Value =
        server.client.get(server.url("/v1/models")).send().await.unwrap().json().await.unwrap();
    let ids: Vec<_> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["m", "alias", "tuned"]);
    let (_, tokens) = server.post("/tokenize", &json!({"prompt": "a b c"})).await;
    assert_eq!(tokens["count"], 3);
    let prompt = "word ".repeat(100);
    server.post("/v1/completions", &json!({"prompt": prompt})).await;
    let (_, second) = server.post("/v1/completions", &json!({"prompt": prompt})).await;
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
    assert!((server.metric("vllm:prefix_cache_hits_total").await - 96.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn logprobs_are_returned_on_request() {
    let server = Server::start(&[]).await;
    let request = with(&json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 4}));
    let (_, answer) = server.post("/v1/chat/completions", &request).await;
    let choice = &answer["choices"][0];
    let tokens = choice["logprobs"]["content"].as_array().unwrap();
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!((tokens.len(), choice["message"]["content"].as_str()), (4, Some(text.as_str())));
    for token in tokens {
        let top = token["top_logprobs"].as_array().unwrap();
        let sum: f64 = top.iter().map(|entry| entry["logprob"].as_f64().unwrap().exp()).sum();
        assert!(top.len() == 3 && sum <= 1.0 && top[0]["token"] == token["token"], "{token}");
    }
    let body = json!({"prompt": "Once", "logprobs": 2, "max_tokens": 3});
    let (_, answer) = server.post("/v1/completions", &body).await;
    let logprobs = &answer["choices"][0]["logprobs"];
    let columns = ["tokens", "token_logprobs", "top_logprobs", "text_offset"];
    assert!(columns.iter().all(|column| logprobs[column].as_array().unwrap().len() == 3), "{logprobs}");
    assert_eq!(logprobs["text_offset"][1], logprobs["tokens"][0].as_str().unwrap().len());
}

#[tokio::test]
async fn without_temperature_the_same_question_gets_the_same_answer() {
    let server = Server::start(&[]).await;
    let mut request = with(&json!({"temperature": 0}));
    request.as_object_mut().unwrap().remove("seed");
    let answer =
        async || server.post("/v1/chat/completions", &request).await.1["choices"][0]["message"].clone();
    assert_eq!(answer().await, answer().await);
}

#[tokio::test]
async fn generation_prompts_and_continued_messages_end_the_prompt() {
    let server = Server::start(&[]).await;
    let tokens = async |fields: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I say "}]});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, answer) = server.post("/tokenize", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["tokens"].clone()
    };
    let text =
        async |text: &str| server.post("/tokenize", &json!({"prompt": text})).await.1["tokens"].clone();
    let prompt = "<|user|>\nHi\n<|assistant|>\nI say ";
    assert_eq!(tokens(json!({})).await, text(&format!("{prompt}\n<|assistant|>\n")).await);
    assert_eq!(tokens(json!({"add_generation_prompt": false})).await, text(&format!("{prompt}\n")).await);
    let continued = json!({"add_generation_prompt": false, "continue_final_message": true});
    assert_eq!(tokens(continued.clone()).await, text(prompt).await);
    // The text of the last message also occurs in what comes after it, or is empty.
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    for prompt in ["f", ""] {
        let messages = json!([{"role": "assistant", "content": prompt, "tool_calls": call}]);
        let mut body = json!({"messages": messages});
        body.as_object_mut().unwrap().extend(continued.as_object().unwrap().clone());
        assert_eq!(tokens(body).await, text(&format!("<|assistant|>\n{prompt}")).await);
    }
    for (fields, words) in [
        (json!({"prompt": "x", "add_special_tokens": false}), "add_special_tokens"),
        (json!({"prompt": "x", "return_token_strs": true}), "return_token_strs"),
    ] {
        let (status, answer) = server.post("/tokenize", &fields).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(words)), "{answer}");
    }
}

#[tokio::test]
async fn a_model_for_embeddings_makes_vectors_and_no_answers() {
    for flags in [["--runner", "pooling"], ["--convert", "embed"], ["--task", "embed"]] {
        let server = Server::start(&[&flags[..], &["--default-embedding-dimensions", "8"]].concat()).await;
        let body = json!({"model": "m", "input": ["The sea", "The sea", "A tree"]});
        let (status, answer) = server.post("/v1/embeddings", &body).await;
        assert_eq!(status, 200, "{answer}");
        let vectors: Vec<Vec<f64>> = (0..3)
            .map(|index| serde_json::from_value(answer["data"][index]["embedding"].clone()).unwrap())
            .collect();
        assert_eq!((vectors[0].len(), &vectors[0]), (8, &vectors[1]));
        assert_ne!(vectors[0], vectors[2]);
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() >= 6, "{answer}");
        assert!((server.metric("vllm:request_success_total").await - 3.0).abs() < 0.1);
        for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses"] {
            assert_eq!(server.post(path, &chat("Hi")).await.0, 404, "{path}");
        }
        let (status, answer) = server.post("/v1/embeddings", &json!({"input": "a", "dimensions": 4})).await;
        assert!(status == 400 && answer["error"]["param"] == "dimensions", "{answer}");
    }
    let server = Server::start(&[]).await;
    let (status, answer) = server.post("/v1/embeddings", &json!({"input": "a"})).await;
    assert_eq!((status, &answer["error"]["message"]), (404, &json!("Not Found")));
    assert!(Args::simulator(&["m", "--task", "score"]).is_err());
}

#[tokio::test]
async fn each_answer_to_a_prompt_counts_as_a_request() {
    let server = Server::start(&["--inter-token-latency", "1h"]).await;
    assert!(server.metric("vllm:request_success_total").await.abs() < 0.1);
    let body = with(&json!({"n": 3, "max_tokens": 1}));
    let (_, answer) = server.post("/v1/chat/completions", &body).await;
    let prompt = answer["usage"]["prompt_tokens"].as_f64().unwrap();
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let counts = [
        ("vllm:request_success_total", 3.0),
        ("vllm:time_to_first_token_seconds_count", 3.0),
        ("vllm:prompt_tokens_total", 3.0 * prompt),
        ("vllm:generation_tokens_total", 3.0),
    ];
    for (name, expected) in counts {
        assert!((server.metric(name).await - expected).abs() < 0.1, "{name}");
    }
    let body = with(&json!({"n": 3, "max_tokens": 2, "stream": true}));
    let mut response =
        server.client.post(server.url("/v1/chat/completions")).json(&body).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    assert!((server.metric("vllm:num_requests_running").await - 3.0).abs() < 0.1);
    // vLLM has no reason of its own for a prompt that another engine continues.
    let body = with(&json!({"kv_transfer_params": {"do_remote_decode": true}}));
    server.post("/v1/chat/completions", &body).await;
    let length = "vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"length\"}";
    assert!((server.metric(length).await - 4.0).abs() < 0.1);
}

#[tokio::test]
async fn tokens_are_counted_while_an_answer_is_generated() {
    let server = Server::start(&["--inter-token-latency", "5ms"]).await;
    let request = with(&json!({"stream": true, "max_tokens": 900, "ignore_eos": true}));
    let sent = server.client.post(server.url("/v1/chat/completions")).json(&request).send();
    let mut response = sent.await.unwrap();
    for _ in 0..5 {
        response.chunk().await.unwrap().unwrap();
    }
    assert!(server.metric("vllm:prompt_tokens_total").await > 0.0);
    let generated = server.metric("vllm:generation_tokens_total").await;
    assert!(generated > 2.0, "{generated}");
    // The client leaves.
    drop(response);
    while server.metric("vllm:num_requests_running").await > 0.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all = server.metric("vllm:generation_tokens_total").await;
    assert!(all >= generated && all < 900.0, "{all}");
}
