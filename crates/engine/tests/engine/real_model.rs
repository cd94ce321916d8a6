//! A real model over real sockets, compared with the results of llama.cpp for the same file (recorded by `oracle.py`).

use std::{collections::BTreeMap, path::Path};

use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::server::{self, Server};

#[derive(Deserialize)]
struct Recorded {
    prompt: String,
    tokens: Vec<u32>,
    answer: Vec<u32>,
    text: String,
    /// For each token of the answer, the distance between the best and the second-best token, in nats.
    gaps: Vec<f64>,
}

fn recorded() -> Vec<Recorded> {
    serde_json::from_str(include_str!("../recorded.json")).unwrap()
}

/// The same prompts, answered from the same weights as F16.
fn recorded_of_halves() -> Vec<Recorded> {
    serde_json::from_str(include_str!("../recorded_f16.json")).unwrap()
}

/// Nothing where the model was not fetched, which is said.
async fn start(arguments: &[&str]) -> Option<Server> {
    Some(start_with(&server::model()?, arguments).await)
}

async fn start_with(model: &Path, arguments: &[&str]) -> Server {
    let mut all = vec![model.to_str().unwrap(), "--served-model-name", "m", "--max-model-len", "2048"];
    all.extend(arguments);
    Server::start(&all).await
}

impl Server {
    /// Returns a greedy answer, and the number of cached prompt tokens.
    async fn greedy(&self, prompt: &[u32], length: usize) -> (String, u64) {
        let answer = self.post("/v1/completions", &greedy(prompt, length)).await;
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
        (answer["choices"][0]["text"].as_str().unwrap().to_owned(), cached)
    }

    async fn streamed(&self, prompt: &[u32], length: usize) -> String {
        let mut body = greedy(prompt, length);
        body["stream"] = true.into();
        let text = self.send("/v1/completions", &body).await.text().await.unwrap();
        let chunks = text.split("\n\n").filter_map(|line| line.strip_prefix("data: {"));
        chunks
            .map(|chunk| {
                let chunk: Value = serde_json::from_str(&format!("{{{chunk}")).unwrap();
                chunk["choices"][0]["text"].as_str().unwrap_or_default().to_owned()
            })
            .collect()
    }
}

fn greedy(prompt: &[u32], length: usize) -> Value {
    json!({"model": "m", "prompt": prompt, "max_tokens": length, "temperature": 0, "ignore_eos": true})
}

/// If llama.cpp's two best tokens are closer than this, in nats, rounding may change the choice: llama.cpp rounds activations
/// to 8 bits before the multiplication with these weights.
const NEAR_TIE: f64 = 0.2;
/// The same where both compute with the F16 weights themselves. Then only the activations of llama.cpp are rounded, to 16
/// bits: the distances between the best two tokens were at most 0.044 from its own, with either file.
const NEAR_TIE_OF_HALVES: f64 = 0.05;
/// The same where the F16 weights become Q8_0. Then activations have 8 bits, and small differences do not stay small: a
/// number that is rounded the other way changes by a whole step, and after some layers everything is rounded differently.
/// `rounding.py` computes the logarithms of the likeliest tokens' probabilities plainly. They differ by (root mean square,
/// and most of 960):
///
/// | Between | | |
/// |---|---|---|
/// | both files with F16, whose queries and keys have another order of rows | 0.00001 | 0.00003 |
/// | both files with 8 bits | 0.13 | 0.62 |
/// | one file with 8 bits, and the same with activations changed by 10⁻⁷ | 0.16 | 0.57 |
/// | F16 and 8 bits, for either file | 0.17, 0.18 | 0.69, 0.96 |
///
/// So both files are samples of the same error. A distance is between two such numbers, so it may be wrong by more than one
/// of them. A single distance says little; their mean says more.
const NEAR_TIE_OF_EIGHT_BITS: f64 = 1.0;

#[tokio::test]
async fn texts_become_the_tokens_of_llama_cpp_and_greedy_answers_are_its_own() {
    let Some(server) = start(&["--weights-as-shipped"]).await else { return };
    let compared = compare(&server, recorded(), NEAR_TIE).await;
    assert!(compared.tokens > 150, "too few tokens were compared: {compared:?}");
    server.end().await;
}

/// How far probabilities may be from each other, in nats, where weights were rounded once more.
const ROUNDED: f64 = 0.75;

/// The likeliest tokens after a prompt, with the logarithms of their probabilities.
async fn likeliest(server: &Server, prompt: &[u32]) -> BTreeMap<String, f64> {
    let mut body = greedy(prompt, 1);
    body["logprobs"] = 20.into();
    let answer = server.post("/v1/completions", &body).await;
    serde_json::from_value(answer["choices"][0]["logprobs"]["top_logprobs"][0].clone()).unwrap()
}

fn first(tokens: &BTreeMap<String, f64>) -> &str {
    tokens.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(token, _)| token.as_str()).unwrap()
}

#[tokio::test]
async fn the_same_weights_as_safetensors_begin_the_same_answers() {
    let Some(model) = server::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let converted = folder.path().join("model");
    if server::script("as_safetensors.py", &[&model, &converted]).is_none() {
        return;
    }
    // F16 is converted to Q8_0 when it is loaded, which rounds the weights again: long answers part sooner or later.
    let (gguf, safetensors) = (start_with(&model, &[]).await, start_with(&converted, &[]).await);
    for Recorded { prompt, tokens, .. } in recorded() {
        let ours = safetensors.post("/tokenize", &json!({"model": "m", "prompt": prompt})).await;
        assert_eq!(ours["tokens"], json!(tokens), "{prompt}");
        let (expected, found) = (likeliest(&gguf, &tokens).await, likeliest(&safetensors, &tokens).await);
        assert_eq!(first(&found), first(&expected), "{prompt}");
        let both: Vec<_> =
            expected.iter().filter_map(|(token, a)| Some((token, a, found.get(token)?))).collect();
        assert!(both.len() * 4 >= expected.len() * 3, "{prompt}: {found:?}, expected {expected:?}");
        for (token, expected, found) in both {
            assert!(
                (found - expected).abs() < ROUNDED,
                "{prompt}: `{token}` has {found}, expected {expected}"
            );
        }
    }
    gguf.end().await;
    safetensors.end().await;
}

#[tokio::test]
async fn greedy_answers_from_halves_are_those_of_llama_cpp_whichever_file_holds_them() {
    let Some(model) = server::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (script, name) in [("as_f16.py", "halves.gguf"), ("as_safetensors.py", "model")] {
        let converted = folder.path().join(name);
        if server::script(script, &[&model, &converted]).is_none() {
            return;
        }
        let exact = start_with(&converted, &["--weights-as-shipped"]).await;
        let compared = compare(&exact, recorded_of_halves(), NEAR_TIE_OF_HALVES).await;
        exact.end().await;
        assert!(compared.tokens > 250, "{name}: too few tokens were compared: {compared:?}");
        assert!(compared.mean < 0.01 && compared.greatest < 0.1, "{name}: {compared:?}");

        let rounded = start_with(&converted, &[]).await;
        let compared = compare(&rounded, recorded_of_halves(), NEAR_TIE_OF_EIGHT_BITS).await;
        rounded.end().await;
        assert!(compared.tokens > 140, "{name}: too few tokens were compared: {compared:?}");
        assert!(compared.mean < 0.2, "{name}: {compared:?}");
    }
}

/// How answers compare with those of llama.cpp, until they depart.
#[derive(Debug)]
struct Compared {
    tokens: usize,
    /// How far the distances between the best two tokens are from those of llama.cpp, in nats.
    mean: f64,
    greatest: f64,
}

/// Compares tokens of prompts and greedy answers with those that were recorded.
async fn compare(server: &Server, prompts: Vec<Recorded>, near_tie: f64) -> Compared {
    let (mut gap_errors, mut differ) = (Vec::new(), Vec::new());
    let answers = prompts.iter().map(|Recorded { prompt, tokens, answer, .. }| async move {
        let ours = server.post("/tokenize", &json!({"model": "m", "prompt": prompt})).await;
        assert_eq!(ours["tokens"], json!(tokens), "{prompt}");
        let mut body = greedy(tokens, answer.len());
        body["logprobs"] = 2.into();
        server.post("/v1/completions", &body).await["choices"][0]["logprobs"].take()
    });
    let answers = join_all(answers).await;
    for (Recorded { prompt, answer, text, gaps, .. }, ours) in prompts.iter().zip(answers) {
        // llama.cpp reports one gap for all tokens of a character. If a character has several tokens, the gaps cannot be
        // assigned to tokens.
        if gaps.len() != answer.len() {
            continue;
        }
        let tokens: Vec<String> = serde_json::from_value(ours["tokens"].clone()).unwrap();
        let best: Vec<BTreeMap<String, f64>> = serde_json::from_value(ours["top_logprobs"].clone()).unwrap();
        assert_eq!((tokens.len(), best.len()), (answer.len(), answer.len()), "{prompt}");
        let mut text_so_far = String::new();
        for ((token, best), gap) in tokens.iter().zip(&best).zip(gaps) {
            text_so_far.push_str(token);
            if !text.starts_with(&text_so_far) {
                if *gap >= near_tie {
                    differ.push(format!("{prompt}: `{text_so_far}` instead of `{text}`, gap {gap}"));
                }
                break;
            }
            let best: Vec<f64> = best.values().copied().collect();
            let [first_token, second_token] = best[..] else {
                panic!("{prompt}: expected two tokens after `{text_so_far}`: {best:?}")
            };
            gap_errors.push(((first_token - second_token).abs() - gap).abs());
        }
    }
    assert_eq!(differ, Vec::<String>::new());
    let tokens = gap_errors.len();
    Compared {
        tokens,
        #[expect(clippy::cast_precision_loss, reason = "a few hundred tokens")]
        mean: gap_errors.iter().sum::<f64>() / tokens as f64,
        greatest: gap_errors.iter().copied().fold(0.0, f64::max),
    }
}

#[tokio::test]
async fn an_answer_is_the_same_alone_in_a_batch_cached_and_streamed() {
    let Some(cold) = start(&["--no-enable-prefix-caching"]).await else { return };
    let warm = start(&[]).await.unwrap();
    let prompts = recorded();
    let mut alone = Vec::new();
    for Recorded { tokens, .. } in &prompts {
        let (text, cached) = cold.greedy(tokens, 12).await;
        assert_eq!(cached, 0);
        alone.push(text);
    }
    let batch = join_all(prompts.iter().map(|prompt| warm.greedy(&prompt.tokens, 12))).await;
    assert_eq!(batch.into_iter().map(|(text, _)| text).collect::<Vec<_>>(), alone);
    for (Recorded { tokens, .. }, alone) in prompts.iter().zip(&alone) {
        let answer = warm.post("/v1/completions", &greedy(tokens, 12)).await;
        assert_eq!(answer["choices"][0]["text"], *alone.as_str());
        assert_eq!(answer["usage"]["prompt_tokens"], tokens.len());
        assert_eq!(warm.streamed(tokens, 12).await, *alone);
    }
    let page = warm.get("/metrics").await;
    let hits = page.lines().find(|line| line.starts_with("vllm:prefix_cache_hits_total{")).unwrap();
    let hits: f64 = hits.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(hits >= 2.0 * 576.0, "the long prompt was found twice: {hits}");
    cold.end().await;
    warm.end().await;
}

#[tokio::test]
async fn a_prompt_with_several_answers_is_computed_once() {
    let Some(server) = start(&[]).await else { return };
    let prompts = recorded();
    let long = prompts.iter().map(|prompt| &prompt.tokens).max_by_key(|tokens| tokens.len()).unwrap();
    let (mut alone, copies) = (greedy(long, 2), 4);
    let answer = server.post("/v1/completions", &alone).await;
    server.end().await;

    let server = start(&[]).await.unwrap();
    alone["n"] = copies.into();
    alone["temperature"] = 1.into();
    // The likeliest token only.
    alone["top_k"] = 1.into();
    let answers = server.post("/v1/completions", &alone).await;
    for copy in answers["choices"].as_array().unwrap() {
        assert_eq!(copy["text"], answer["choices"][0]["text"]);
    }
    let hits = metric(&server, "vllm:prefix_cache_hits_total").await;
    assert!(hits >= 3.0 * 576.0, "three of four answers found the prompt computed: {hits}");
    server.end().await;
}

#[tokio::test]
async fn conversations_are_answered_and_unsupported_fields_refused() {
    let Some(server) = start(&[]).await else { return };
    let messages = json!([{"role": "user", "content": "Write one sentence about the sea."}]);
    let body = json!({"model": "m", "messages": messages, "max_tokens": 64, "temperature": 0});
    let answer = server.post("/v1/chat/completions", &body).await;
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.starts_with("The sea is "), "{text}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    let mut body = body.clone();
    body["tools"] = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let response = server.send("/v1/chat/completions", &body).await;
    assert_eq!(response.status(), 400);
    server.end().await;
}

/// Returns the value of a series that occurs once on the page.
async fn metric(server: &Server, name: &str) -> f64 {
    let page = server.get("/metrics").await;
    let line = page.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits until a series has this value.
async fn until(server: &Server, name: &str, value: f64) {
    for _ in 0..1200 {
        if (metric(server, name).await - value).abs() < 1e-6 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{name} does not become {value}");
}

/// Starts a streamed long answer, and waits for its first piece.
async fn long_answer(server: &Server, prompt: &[u32]) -> reqwest::Response {
    let mut body = greedy(prompt, 400);
    body["stream"] = true.into();
    let mut response = server.send("/v1/completions", &body).await;
    assert!(response.chunk().await.unwrap().is_some());
    response
}

/// Starts a short answer in the background, and waits until the engine counts it as waiting.
async fn waiting_answer(server: &Server, prompt: &[u32]) -> JoinHandle<reqwest::Result<reqwest::Response>> {
    let request = server.client.post(server.url() + "/v1/completions").json(&greedy(prompt, 2));
    let waiting = tokio::spawn(request.send());
    until(server, "vllm:num_requests_waiting", 1.0).await;
    waiting
}

#[tokio::test]
async fn a_disconnect_frees_a_place_and_a_full_queue_refuses() {
    let Some(server) = start(&["--max-num-seqs", "1", "--max-waiting-queue-length", "1"]).await else {
        return;
    };
    let prompt = &recorded()[0].tokens;
    let running = long_answer(&server, prompt).await;
    let waiting = waiting_answer(&server, prompt).await;
    let refused = server.send("/v1/completions", &greedy(prompt, 2)).await;
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("The waiting queue is full"));
    drop(running);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    until(&server, "vllm:num_requests_running", 0.0).await;
    until(&server, "vllm:kv_cache_usage_perc", 0.0).await;
    // The tokens that the first client did not wait for count too, because the engine counts while it generates.
    let tokens = metric(&server, "vllm:generation_tokens_total").await;
    assert!(tokens > 2.0 && tokens < 402.0, "the engine went on for a client that had left: {tokens}");
    server.end().await;
}

#[tokio::test]
async fn a_disconnect_before_the_answer_starts_leaves_the_queue() {
    let Some(server) = start(&["--max-num-seqs", "1", "--max-waiting-queue-length", "1"]).await else {
        return;
    };
    let prompt = &recorded()[0].tokens;
    let running = long_answer(&server, prompt).await;
    let waiting = waiting_answer(&server, prompt).await;
    waiting.abort();
    until(&server, "vllm:num_requests_waiting", 0.0).await;
    until(&server, "vllm:num_requests_running", 1.0).await;
    let next = waiting_answer(&server, prompt).await;
    drop(running);
    assert_eq!(next.await.unwrap().unwrap().status(), 200);
    until(&server, "vllm:num_requests_waiting", 0.0).await;
    until(&server, "vllm:num_requests_running", 0.0).await;
    server.end().await;
}

#[tokio::test]
async fn a_long_prompt_is_computed_in_pieces_between_the_tokens_of_others() {
    let Some(server) = start(&["--max-num-batched-tokens", "32"]).await else { return };
    let unchunked = start(&["--max-num-batched-tokens", "2048"]).await.unwrap();
    let prompts = recorded();
    let long = prompts.iter().map(|prompt| &prompt.tokens).max_by_key(|tokens| tokens.len()).unwrap();
    let (expected, _) = unchunked.greedy(long, 4).await;
    let mut running = long_answer(&server, &prompts[0].tokens).await;
    let mut request = Box::pin(server.greedy(long, 4));
    let mut pieces = 0;
    let (text, _) = loop {
        tokio::select! {
            answer = &mut request => break answer,
            piece = running.chunk() => pieces += usize::from(piece.unwrap().is_some()),
        }
    };
    assert_eq!(text, expected);
    // Each forward pass computes at most 31 tokens of the long prompt and one of the other answer.
    assert!(pieces >= long.len() / 64, "{pieces} pieces came while {} tokens were computed", long.len());
    drop((request, running));
    server.end().await;
    unchunked.end().await;
}
