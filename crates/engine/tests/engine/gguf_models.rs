//! GGUF files of small random models, compared with plain arithmetic (`gguf_reference.py`): each format of weights, each way
//! to make a vector of a text, and the tokens that are added to texts.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{self, Server};

#[derive(Deserialize)]
struct AnswerPart {
    formats: BTreeMap<String, Vec<Answer>>,
    embedders: BTreeMap<String, Embedded>,
}

/// The logarithm of the probability of each token after a prompt.
#[derive(Deserialize)]
struct Answer {
    prompt: Vec<u32>,
    plain: Vec<f64>,
}

/// What a text becomes.
#[derive(Deserialize)]
struct Embedded {
    tokens: Vec<u32>,
    vector: Vec<f64>,
}

fn models() -> Option<(TempDir, AnswerPart)> {
    let folder = tempfile::tempdir().unwrap();
    let stdout = server::script("gguf_reference.py", &[folder.path()])?;
    Some((folder, serde_json::from_slice(&stdout).unwrap()))
}

async fn start(folder: &TempDir, name: &str, extra_args: &[&str]) -> Server {
    let file = folder.path().join(format!("{name}.gguf"));
    Server::start(&[&[file.to_str().unwrap(), "--served-model-name", "m"], extra_args].concat()).await
}

/// Which token a text of one character is.
fn token(text: &str) -> usize {
    let character = text.chars().next().unwrap();
    if character == ' ' { 94 } else { character as usize - 33 }
}

#[tokio::test]
async fn every_weight_format_matches_its_dequantized_numbers() {
    let Some((folder, reference)) = models() else { return };
    assert_eq!(reference.formats.len(), 12);
    for (format, answers) in &reference.formats {
        for flags in [&["--weights-as-shipped"][..], &[]] {
            let server = start(&folder, &format!("format-{format}"), flags).await;
            for Answer { prompt, plain } in answers {
                let body = json!({"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 20, "ignore_eos": true});
                let answer = server.post("/v1/completions", &body).await;
                let top = answer["choices"][0]["logprobs"]["top_logprobs"][0].as_object().unwrap();
                // Special tokens are not among the letters.
                let answer: Vec<_> = top.iter().filter(|(text, _)| text.len() == 1).collect();
                assert!(answer.len() >= 18, "{format}: {top:?}");
                for (text, logprob) in answer {
                    let (ours, expected) = (logprob.as_f64().unwrap(), plain[token(text)]);
                    // Rows of activations are rounded to 8 bits before they are multiplied, unless weights are whole numbers.
                    let near = (ours - expected).abs() < 0.15;
                    assert!(near, "{format} {flags:?}: `{text}` has {ours}, expected {expected}");
                }
            }
            server.end().await;
        }
    }
}

#[tokio::test]
async fn pooling_and_special_tokens_follow_the_files_of_the_model() {
    let Some((folder, reference)) = models() else { return };
    assert_eq!(reference.embedders.len(), 12);
    for (name, Embedded { tokens, vector }) in &reference.embedders {
        let server = start(&folder, &format!("embeds-{name}"), &["--weights-as-shipped"]).await;
        let answer = server.post("/tokenize", &json!({"prompt": "\"#$"})).await;
        assert_eq!(answer["tokens"], json!(tokens), "{name}");
        let answer = server.post("/v1/embeddings", &json!({"input": "\"#$"})).await;
        assert_eq!(answer["usage"]["prompt_tokens"], tokens.len(), "{name}");
        let ours: Vec<f64> = serde_json::from_value(answer["data"][0]["embedding"].clone()).unwrap();
        assert_eq!(ours.len(), vector.len());
        for (ours, expected) in ours.iter().zip(vector) {
            assert!((ours - expected).abs() < 1e-4, "{name}: {ours}, expected {expected}");
        }
        server.end().await;
    }
    for name in ["answers-0", "answers-none"] {
        let server = start(&folder, name, &[]).await;
        assert_eq!(server.send("/v1/embeddings", &json!({"input": "a"})).await.status(), 404, "{name}");
        let answer = server.post("/v1/completions", &json!({"prompt": "a", "max_tokens": 2})).await;
        assert_eq!(answer["usage"]["prompt_tokens"], 1, "{name}");
        let tokens = json!({"prompt": [token("C"), token("D")], "echo": true, "max_tokens": 1});
        let answer = server.post("/v1/completions", &tokens).await;
        assert!(answer["choices"][0]["text"].as_str().unwrap().starts_with("CD"), "{name}: {answer}");
        server.end().await;
    }
    let file = folder.path().join("embeds-unknown.gguf");
    let error = longboat_engine::check(&file, None).unwrap_err().to_string();
    assert!(error.ends_with("`qwen3.pooling_type` 9 is not supported by this engine"), "{error}");
}

#[tokio::test]
async fn the_begin_token_is_added_once() {
    let Some((folder, _)) = models() else { return };
    let server = start(&folder, "embeds-last-both", &["--runner", "generate"]).await;
    let tokens = async |body: Value| server.post("/tokenize", &body).await["tokens"].clone();
    assert_eq!(tokens(json!({"prompt": "!"})).await, json!([90, 0, 91]));
    assert_eq!(tokens(json!({"prompt": "<s>!"})).await, json!([90, 0]));
    server.end().await;
}
