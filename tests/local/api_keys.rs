//! API keys under `longboat up`.

use std::fs;

use serde_json::json;

use crate::{
    http,
    local_cluster::{LocalCluster, MODEL, example, up},
    page::Page,
    program::run,
    tools,
    wait::until,
};

const KEY: &str = "sk-local-0123456789abcdef";

/// The status of a chat with this key.
fn status(url: &str, key: &str) -> u16 {
    let messages = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": MODEL, "messages": messages, "max_tokens": 4});
    let url = format!("{url}/v1/chat/completions");
    http::block(async {
        let response = http::client().post(url).bearer_auth(key).json(&body).send().await.unwrap();
        // The usage is at the end of the body. The gateway does not see it if the client goes away.
        http::read(response).await.status
    })
}

#[test]
fn a_service_that_asks_for_keys_answers_only_those_who_have_one() {
    if tools::kubectl().is_none() {
        return;
    }
    let service = fs::read_to_string(example()).unwrap().replacen(
        "metadata:\n",
        "metadata:\n  annotations:\n    longboat.dev/api-keys: required\n",
        1,
    );
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "team", "labels": {"longboat.dev/api-key": "true"}},
        "stringData": {"key": KEY, "requestsPerDay": "2"},
    });
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("keyed.yaml");
    fs::write(&file, format!("{service}\n---\n{secret}\n")).unwrap();
    // The simulator, because a model may end its answer before the limit.
    let world = LocalCluster::start(&["--engine", "sim", file.to_str().unwrap()]);
    assert_eq!(status(&world.url, "sk-another-0123456789"), 401);
    assert_eq!([(); 3].map(|()| status(&world.url, KEY)), [200, 200, 429]);
    let gateway: String = world.url.split('/').take(3).collect::<Vec<_>>().join("/");
    until("the tokens are counted", || {
        let page = http::get(&format!("{gateway}/metrics")).body;
        let series = "longboat_gateway_api_key_tokens_total{namespace=\"default\",api_key=\"team\",kind=\"completion\"} 8";
        page.contains(series)
    });
    let next = r#"{"stringData": {"key": "sk-next-0123456789abcdef", "requestsPerDay": "9"}}"#;
    world.ask(&["patch", "secret", "team", "-p", next]);
    until("the former key is refused", || status(&world.url, KEY) == 401);
    assert_eq!(status(&world.url, "sk-next-0123456789abcdef"), 200);
    let prompt = ["--engine", "sim", "--port", "0", "--prompt", "Hello", "--once", file.to_str().unwrap()];
    for key in [None, Some(KEY)] {
        let ended = run(up(folder.path()).args(prompt).envs(key.map(|key| ("LONGBOAT_API_KEY", key))));
        assert_eq!(ended.status.success(), key.is_some(), "{ended:#?}");
        let advice = "put an API key of the service into LONGBOAT_API_KEY";
        assert_eq!(ended.stderr.contains(advice), key.is_none(), "{ended:#?}");
    }
    let said = world.running.stderr();
    assert!(!said.contains("sk-"), "{said}");
}

#[test]
fn the_key_of_an_engine_is_found_in_its_secret_by_everything_that_sends_requests_for_a_person() {
    if tools::kubectl().is_none() {
        return;
    }
    let template = "  template: {containers: [{name: main, args: [--api-key, $(KEY)], env: [{name: KEY, valueFrom: \
                    {secretKeyRef: {name: llm, key: key.txt}}}]}]}\n";
    let service = fs::read_to_string(example())
        .unwrap()
        .replacen("metadata:\n", "metadata:\n  annotations:\n    longboat.dev/serving-proof: report\n", 1)
        .replacen("  replicas: 1\n", &format!("  replicas: 1\n{template}"), 1);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "llm"}, "stringData": {"key.txt": KEY},
    });
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("guarded.yaml");
    fs::write(&file, format!("{service}\n---\n{secret}\n")).unwrap();
    let world = LocalCluster::start(&["--engine", "sim", file.to_str().unwrap()]);
    assert_eq!(["sk-another-0123456789", KEY].map(|key| status(&world.url, key)), [401, 200]);
    let said = world.running.stderr();
    let line = "export KEY=$(kubectl get secret -n default llm -o jsonpath='{.data.key\\.txt}' | base64 -d)";
    assert!(said.contains(line) && said.contains("-H \"Authorization: Bearer $KEY\""), "{said}");
    let page = Page::of(&world);
    let chat = json!({"messages": [{"role": "user", "content": "Hello"}]}).to_string();
    let answer = page.ask("POST", "/api/chat?service=default/qwen", chat.clone());
    assert_eq!(answer.status, 200, "{answer:?}");
    // The proof has no rights of a person.
    let condition = "jsonpath={.status.conditions[?(@.type=='ServingProven')].message}";
    until("the proof says why it has no token", || {
        let message = world.ask(&["get", "llmisvc", "qwen", "-o", condition]);
        message.starts_with("the engine answered 401 at") && message.contains("serving-proof: off")
    });
    let logs = world.ask(&["logs", "deploy/qwen-kserve", "-c", "main"]);
    assert!(!said.contains(KEY) && !logs.contains(KEY), "{said}\n{logs}");
    world.ask(&["delete", "secret", "llm"]);
    let answer = page.ask("POST", "/api/chat?service=default/qwen", chat);
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.body.contains("because the service asks for an API key"), "{answer:?}");

    let prompt = ["--engine", "sim", "--port", "0", "--prompt", "Hello", "--once", file.to_str().unwrap()];
    let ended = run(up(folder.path()).args(prompt));
    assert!(ended.status.success(), "{ended:#?}");
}
