//! The simulator answers as a real vLLM did, but where compatibility.yaml says otherwise.

use longboat_golden::{IntendedDifferences, vllm::assert_answers};

use crate::Server;

#[tokio::test]
async fn every_request_is_answered_as_vllm_answers_it() {
    let server = Server::start(&["--max-model-len", "512"]).await;
    let intended = IntendedDifferences::of_the_simulator();
    assert_answers(&server.client, &server.url(""), "ADAPTER", &intended).await;
}
