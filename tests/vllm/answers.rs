//! `answers.json`: what vLLM answers to the requests of `requests.yaml`.

use std::collections::BTreeMap;

use longboat_golden::vllm::{Response, facts, requests, write};

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
    let model = install.model("small").display().to_string();
    let mut answers = BTreeMap::new();
    for request in requests() {
        let mut call = server.client.request(request.method.parse().unwrap(), server.url(&request.path));
        if let Some(kind) = &request.content_type {
            call = call.header("content-type", kind);
        }
        let answer = call.body(request.body.unwrap_or_default()).send().await.unwrap();
        let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let response = Response {
            status: answer.status().as_u16(),
            content_type: kind.unwrap_or_default(),
            // The path of the model is another one on each machine.
            body: answer.text().await.unwrap().replace(&model, "MODEL"),
        };
        answers.insert(request.name, facts(&response));
    }
    check("answers.json", &write(&install.version(), &answers));
}
