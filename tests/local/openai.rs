//! OpenAI clients at `status.url`.

use std::process::Command;

use serde_json::{Value, json};

use crate::{
    http,
    local_cluster::{LocalCluster, MODEL, run},
    tools,
};

#[test]
fn curl_gets_models_and_completions() {
    let world = LocalCluster::shared();
    let models = run(Command::new("curl").args(["-sSf", &format!("{}/v1/models", world.url)])).ok();
    let models: Value = serde_json::from_str(&models).unwrap();
    assert_eq!(models["object"], "list");
    assert_eq!(models["data"][0]["id"], MODEL);

    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8});
    let url = format!("{}/v1/chat/completions", world.url);
    let arguments = ["-sSf", &url, "-H", "Content-Type: application/json", "-d", &body.to_string()];
    let answer: Value = serde_json::from_str(&run(Command::new("curl").args(arguments)).ok()).unwrap();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() <= 8, "{answer}");
}

#[test]
fn errors_have_a_status_and_a_message() {
    let world = LocalCluster::shared();
    let url = format!("{}/v1/chat/completions", world.url);
    let unknown = http::post(&url, &json!({"model": "nope", "messages": [{"role": "user", "content": "x"}]}));
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert!(unknown.body.contains("nope"), "{unknown:?}");
    let elsewhere = http::get(&format!("{}-not/v1/models", world.url));
    assert_eq!(elsewhere.status, 404, "{elsewhere:?}");
}

#[test]
fn the_official_python_client_works_streaming_and_not() {
    let Some(python) = tools::python() else { return };
    let world = LocalCluster::shared();
    let script = tools::root().join("tests/local/openai_client.py");
    let said = run(Command::new(python).arg(script).arg(format!("{}/v1", world.url))).ok();
    assert_eq!(said.trim(), "fine");
}

#[test]
fn the_official_python_client_gets_tools_schemas_probabilities_and_responses() {
    let Some(python) = tools::python() else { return };
    let world = LocalCluster::shared();
    let script = tools::root().join("tests/local/openai_forms.py");
    let said = run(Command::new(python).arg(script).arg(format!("{}/v1", world.url))).ok();
    assert_eq!(said.trim(), "fine");
}
