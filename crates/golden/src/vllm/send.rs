//! Sends the requests to a server.

use reqwest::Client;

use super::{Recording, Request, Response, compare, facts, requests};
use crate::IntendedDifferences;

/// Sends a request to the server at this URL. `adapter` is the path of an adapter for its model.
pub async fn send(client: &Client, url: &str, request: &Request, adapter: &str) -> Response {
    let mut call = client.request(request.method.parse().unwrap(), format!("{url}{}", request.path));
    if let Some(kind) = &request.content_type {
        call = call.header("content-type", kind);
    }
    let body = request.body.as_deref().unwrap_or_default().replace("ADAPTER", adapter);
    let answer = call.body(body).send().await.unwrap();
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    Response {
        status: answer.status().as_u16(),
        content_type: kind.unwrap_or_default(),
        body: answer.text().await.unwrap(),
    }
}

/// Sends all requests to the server at this URL. Panics if it answers otherwise than vLLM did, and the difference is not intended.
pub async fn assert_answers(client: &Client, url: &str, adapter: &str, intended: &IntendedDifferences) {
    let recording = Recording::committed();
    let mut unexpected = Vec::new();
    for request in requests() {
        let response = send(client, url, &request, adapter).await;
        for difference in compare(recording.answer(&request.name), &facts(&response)) {
            if intended.reason(&request.name, &difference).is_none() {
                let (recorded, ours) = (&difference.recorded, &difference.ours);
                let line = format!("{} | {} | {recorded} | {ours}", request.name, difference.place);
                unexpected.push(line.replace('\n', "\\n"));
            }
        }
    }
    let unused = intended.unused();
    assert!(
        unexpected.is_empty() && unused.is_empty(),
        "{} differences:\n{}\n{} lines without a difference:\n{}",
        unexpected.len(),
        unexpected.join("\n"),
        unused.len(),
        unused.join("\n"),
    );
}
