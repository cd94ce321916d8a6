//! The engine answers as a real vLLM did with the same model, but where compatibility.yaml says otherwise.

use longboat_golden::{IntendedDifferences, vllm::assert_answers};

use crate::server::{Server, model, script};

#[tokio::test]
async fn every_request_is_answered_as_vllm_answers_it() {
    let Some(file) = model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [model, small, adapter] = ["model", "small", "adapter"].map(|name| folder.path().join(name));
    let Some(_) = script("as_safetensors.py", &[&file, &model]) else { return };
    script("../../../tests/vllm/small_model.py", &[&model, &small, &adapter]);
    let arguments = [
        small.to_str().unwrap(),
        "--served-model-name",
        "m",
        "alias",
        "--max-model-len",
        "512",
        "--enable-lora",
    ];
    let variable = |name: &str| (name == "VLLM_ALLOW_RUNTIME_LORA_UPDATING").then(|| "1".to_owned());
    let server = Server::start_in(&arguments, variable).await;
    let intended = IntendedDifferences::of_the_engine();
    assert_answers(&server.client, &server.url(), adapter.to_str().unwrap(), &intended).await;
    server.end().await;
}
