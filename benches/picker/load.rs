//! Sends requests at a fixed rate, whether or not earlier ones are answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

pub(crate) fn client() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

/// The parameters of every request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The approximate size of the prompt, in bytes.
    pub(crate) prompt: usize,
    /// The tokens of the answer.
    pub(crate) tokens: u32,
    /// Whether the answer is a stream.
    pub(crate) stream: bool,
}

/// The results of a load.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    times: Vec<Duration>,
    pub(crate) failed: usize,
    /// The number of stream events.
    pub(crate) events: usize,
}

impl Outcome {
    pub(crate) fn sent(&self) -> usize {
        self.times.len() + self.failed
    }

    /// Returns a percentile of the response times, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let last = self.times.len().saturating_sub(1);
        self.times.get(last * percent / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}

/// Returns a chat request whose prompt has a unique beginning, so that requests spread over all endpoints.
fn body(ask: Ask) -> Bytes {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const WORDS: &str = "lorem ipsum dolor sit amet, consectetur adipiscing elit.\\n ";
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = format!("{number} {}", WORDS.repeat(ask.prompt / WORDS.len()));
    let mut body = json!({
        "model": "m", "max_tokens": ask.tokens, "ignore_eos": true, "messages": [{"role": "user", "content": text}],
    });
    if ask.stream {
        body["stream"] = true.into();
    }
    Bytes::from(body.to_string())
}

/// Sends `count` requests, `rate` per second, and waits for the responses.
pub(crate) async fn run(http: &Http, url: &str, ask: Ask, rate: u32, count: usize) -> Outcome {
    let uri: Arc<str> = format!("{url}/v1/chat/completions").into();
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut requests = JoinSet::new();
    for _ in 0..count {
        ticks.tick().await;
        let (http, uri) = (http.clone(), Arc::clone(&uri));
        requests.spawn(async move {
            let request = http::Request::post(&*uri)
                .header("content-type", "application/json")
                .body(Full::new(body(ask)))
                .unwrap();
            let start = Instant::now();
            let answer = http.request(request).await.ok().filter(|answer| answer.status().is_success())?;
            let answer = answer.into_body().collect().await.ok()?.to_bytes();
            let events = answer.windows(6).filter(|window| window == b"data: ").count();
            Some((start.elapsed(), events))
        });
    }
    let mut outcome = Outcome::default();
    while let Some(done) = requests.join_next().await {
        match done.unwrap() {
            Some((time, events)) => {
                outcome.times.push(time);
                outcome.events += events;
            }
            None => outcome.failed += 1,
        }
    }
    outcome.times.sort_unstable();
    outcome
}
