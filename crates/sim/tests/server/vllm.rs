//! The simulator answers as a real vLLM did, but where compatibility.yaml says otherwise.

use longboat_golden::{
    IntendedDifferences,
    vllm::{Recording, Response, compare, facts, requests},
};

use crate::Server;

#[tokio::test]
async fn every_request_is_answered_as_vllm_answers_it() {
    let server = Server::start(&["--max-model-len", "512"]).await;
    let (recording, intended) = (Recording::committed(), IntendedDifferences::of_the_simulator());
    let mut unexpected = Vec::new();
    for request in requests() {
        let mut call = server.client.request(request.method.parse().unwrap(), server.url(&request.path));
        if let Some(kind) = &request.content_type {
            call = call.header("content-type", kind);
        }
        let answer = call.body(request.body.clone().unwrap_or_default()).send().await.unwrap();
        let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let response = Response {
            status: answer.status().as_u16(),
            content_type: kind.unwrap_or_default(),
            body: answer.text().await.unwrap(),
        };
        for difference in compare(recording.answer(&request.name), &facts(&response)) {
            if intended.reason(&request.name, &difference).is_none() {
                let (recorded, ours) = (&difference.recorded, &difference.ours);
                let line = format!("{} | {} | {recorded} | {ours}", request.name, difference.place);
                unexpected.push(line.replace('\n', "\\n"));
            }
        }
    }
    assert!(unexpected.is_empty(), "{} differences:\n{}", unexpected.len(), unexpected.join("\n"));
    assert_eq!(intended.unused(), Vec::<&str>::new());
}
