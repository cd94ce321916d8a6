//! `answers.json`: what vLLM answers to the requests of `requests.yaml`.

use std::collections::BTreeMap;

use longboat_golden::vllm::{facts, requests, send, write};

use crate::{
    install::{Install, check},
    server::Server,
};

/// What the simulator always does, and vLLM only if it is told to: tools, details of usage, `/render`, adapters.
const FLAGS: [&str; 11] = [
    "--served-model-name",
    "m",
    "alias",
    "--max-model-len",
    "512",
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "hermes",
    "--enable-prompt-tokens-details",
    "--enable-scale-out",
    "--enable-lora",
];

#[tokio::test]
async fn the_recorded_answers_are_those_of_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let server = Server::start(&install, "small", &FLAGS).await;
    let [model, adapter] = ["small", "adapter"].map(|name| install.folder(name).display().to_string());
    let mut answers = BTreeMap::new();
    for request in requests() {
        let mut response = send(&server.client, &server.url(""), &request, &adapter).await;
        // The paths are others on each machine.
        response.body = response.body.replace(&model, "MODEL").replace(&adapter, "ADAPTER");
        answers.insert(request.name, facts(&response));
    }
    check("answers.json", &write(&install.version(), &answers));
}
