//! Tests of requests that the picker evicts while an endpoint processes them, to make room for others.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::StreamExt;
use longboat_extproc::{
    Action, Event, Header, HeaderChanges, ImmediateResponse, Incoming as Message, Outbox, Processor,
    ProcessorExchange, names,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{bench, picker, simulator};

/// A picker that ends every request with 429 on command.
struct EvictingPicker {
    destination: String,
    evict: CancellationToken,
}

impl Processor for EvictingPicker {
    type Exchange = EvictionExchange;

    fn open(&self) -> EvictionExchange {
        let evict = Box::pin(self.evict.clone().cancelled_owned());
        EvictionExchange { destination: self.destination.clone(), evict: Some(evict) }
    }
}

struct EvictionExchange {
    destination: String,
    evict: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl ProcessorExchange for EvictionExchange {
    fn handle(&mut self, incoming: Message, out: &mut Outbox) {
        match incoming.event {
            Event::RequestBody { body, end_of_stream } => {
                if !body.is_empty() {
                    let set = vec![Header::new(names::DESTINATION, self.destination.clone())];
                    out.push(Action::RequestHeaders(HeaderChanges { set, ..HeaderChanges::default() }));
                }
                out.push(Action::RequestBody { body, end_of_stream });
            }
            Event::ResponseHeaders { .. } => out.push(Action::ResponseHeaders(HeaderChanges::default())),
            Event::ResponseBody { body, end_of_stream } => {
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Event::RequestHeaders { .. } | Event::RequestTrailers(_) | Event::ResponseTrailers(_) => {}
        }
    }

    fn waits(&self) -> bool {
        self.evict.is_some()
    }

    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let Some(evict) = &mut self.evict else { return };
        if matches!(evict.as_mut().poll(context), Poll::Ready(())) {
            self.evict = None;
            let body = Bytes::from_static(b"evicted");
            out.push(Action::Immediate(ImmediateResponse {
                status: 429,
                body,
                ..ImmediateResponse::default()
            }));
            out.finish();
        }
    }
}

/// Waits until the simulator processes this many requests.
async fn running(client: &reqwest::Client, simulator: std::net::SocketAddr, count: &str) {
    for _ in 0..1000 {
        let page = client.get(format!("http://{simulator}/metrics")).send().await.unwrap();
        let page = page.text().await.unwrap();
        let mut lines = page.lines().filter(|line| line.starts_with("vllm:num_requests_running"));
        if lines.any(|line| line.ends_with(count)) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("there are not {count} requests at the simulator");
}

#[tokio::test]
async fn a_response_that_has_begun_is_cut_and_its_work_ends() {
    let shutdown = CancellationToken::new();
    // Twelve tokens would take an hour.
    let simulator = simulator(&shutdown, &["--inter-token-latency", "300s"]).await;
    let evict = CancellationToken::new();
    let script = EvictingPicker { destination: simulator.to_string(), evict: evict.clone() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[], "FailOpen").await;
    let response = bench.ask("/pool", true).await;
    assert_eq!(response.status(), 200);
    let mut chunks = response.bytes_stream();
    let first = chunks.next().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: "), "{first:?}");
    evict.cancel();
    let mut rest = String::new();
    while let Some(chunk) = chunks.next().await {
        rest += std::str::from_utf8(&chunk.unwrap()).unwrap();
    }
    let event = rest.trim().rsplit("\n\n").next().unwrap().strip_prefix("data: ").unwrap();
    let error: serde_json::Value = serde_json::from_str(event).unwrap();
    let message = "the endpoint picker ended the response, to free capacity for another request";
    assert_eq!(error["error"]["message"], message);
    running(&bench.client, simulator, " 0").await;
}

#[tokio::test]
async fn a_request_that_nobody_has_answered_is_answered_by_the_picker_and_its_work_ends() {
    let shutdown = CancellationToken::new();
    let simulator = simulator(&shutdown, &["--time-to-first-token", "3600s"]).await;
    let evict = CancellationToken::new();
    let script = EvictingPicker { destination: simulator.to_string(), evict: evict.clone() };
    let picker = picker(&shutdown, script).await;
    let bench = bench(Some(picker), simulator, &[], "FailOpen").await;
    let evictor = async {
        running(&bench.client, simulator, " 1").await;
        evict.cancel();
    };
    let (response, ()) = tokio::join!(bench.ask("/pool", false), evictor);
    assert_eq!(response.status(), 429);
    assert_eq!(response.json::<serde_json::Value>().await.unwrap()["error"]["message"], "evicted");
    running(&bench.client, simulator, " 0").await;
}
