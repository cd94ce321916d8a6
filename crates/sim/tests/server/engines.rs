//! The simulator as another engine than vLLM.

use serde_json::json;

use crate::{Server, chat};

/// The status of the answer, its model, and the adapter that answered.
async fn ask(server: &Server, model: &str, adapter: Option<&str>) -> (u16, String, Option<String>) {
    let mut request = chat("List all users.");
    request["model"] = json!(model);
    request["lora_path"] = json!(adapter);
    let response =
        server.client.post(server.url("/v1/chat/completions")).json(&request).send().await.unwrap();
    let status = response.status().as_u16();
    let adapter = response.headers().get("x-simulated-adapter").map(|name| name.to_str().unwrap().to_owned());
    let answer: serde_json::Value = response.json().await.unwrap();
    (status, answer["model"].as_str().unwrap_or_default().to_owned(), adapter)
}

#[tokio::test]
async fn sglang_takes_an_adapter_from_its_field_or_after_a_colon_and_never_from_the_name_of_the_model() {
    let module = r#"{"lora_name":"sql","lora_path":"/mnt/lora/sql"}"#;
    let server = Server::start(&["--simulated-engine=sglang", "--lora-paths", module]).await;
    let answered = |model: &str, adapter: Option<&str>| (200, model.to_owned(), adapter.map(str::to_owned));
    assert_eq!(ask(&server, "m", None).await, answered("m", None));
    assert_eq!(ask(&server, "sql", None).await, answered("sql", None), "the base model answers");
    assert_eq!(ask(&server, "sql", Some("sql")).await, answered("sql", Some("sql")));
    assert_eq!(ask(&server, "m:sql", None).await, answered("m:sql", Some("sql")));
    assert_eq!(ask(&server, "m", Some("other")).await.0, 400);

    let server = Server::start(&["--lora-modules", "sql=/mnt/lora/sql"]).await;
    assert_eq!(ask(&server, "sql", None).await, answered("sql", Some("sql")), "vLLM");
    assert_eq!(ask(&server, "other", None).await.0, 404, "vLLM");
}

#[tokio::test]
async fn the_metrics_of_tensorrt_llm_are_at_a_path_of_their_own() {
    let server = Server::start(&["--simulated-engine=trtllm-serve"]).await;
    let page =
        async |path: &str| server.client.get(server.url(path)).send().await.unwrap().text().await.unwrap();
    assert!(page("/prometheus/metrics").await.contains("trtllm_num_requests_waiting{"));
    assert_eq!(page("/metrics").await, "[]\n");
}

#[tokio::test]
async fn models_are_listed_with_adapters_and_owner() {
    let module = r#"{"lora_name":"sql","lora_path":"/mnt/lora/sql"}"#;
    let adapters = ["--simulated-engine=sglang", "--lora-paths", module, "law=/mnt/lora/law"];
    for (flags, models) in [
        (&adapters[..], &[("m", "sglang"), ("alias", "sglang"), ("sql", "sglang"), ("law", "sglang")][..]),
        (&["--simulated-engine=trtllm-serve"], &[("m", "tensorrt_llm"), ("alias", "tensorrt_llm")]),
        (&["--simulated-engine=llamacpp"], &[("m", "llamacpp"), ("alias", "llamacpp")]),
        (&[], &[("m", "vllm"), ("alias", "vllm")]),
    ] {
        let server = Server::start(flags).await;
        let response = server.client.get(server.url("/v1/models")).send().await.unwrap();
        let list: serde_json::Value = response.json().await.unwrap();
        let text = |model: &serde_json::Value, key: &str| model[key].as_str().unwrap().to_owned();
        let found =
            list["data"].as_array().unwrap().iter().map(|model| (text(model, "id"), text(model, "owned_by")));
        let expected = models.iter().map(|(id, owner)| ((*id).to_owned(), (*owner).to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
