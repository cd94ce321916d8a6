//! An open loop: requests are sent at a fixed rate, whether or not earlier ones are answered. So slow responses count, and do
//! not delay further requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

/// Sends chat requests to base URLs in turn.
pub(crate) struct Load {
    client: reqwest::Client,
    targets: Vec<String>,
    next: Arc<AtomicUsize>,
    model: String,
}

/// The results of a load.
pub(crate) struct Outcome {
    /// Times of the answered requests, ascending.
    times: Vec<Duration>,
    /// The number of requests that were not answered.
    pub(crate) failed: usize,
}

// === impl Load ===

impl Load {
    /// Creates a load for these base URLs and this model.
    pub(crate) fn new(targets: Vec<String>, model: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap_or_default();
        Self { client, targets, next: Arc::default(), model: model.to_owned() }
    }

    /// Sends one request.
    pub(crate) async fn record_once(&self) -> anyhow::Result<()> {
        ensure!(self.request(0).await.is_some(), "a request failed");
        Ok(())
    }

    /// Sends `rate` requests per second for `time`.
    pub(crate) async fn run(&self, rate: u32, time: Duration) -> anyhow::Result<Outcome> {
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut requests = JoinSet::new();
        let count = usize::try_from(u64::from(rate) * time.as_secs())?;
        for number in 0..count {
            ticks.tick().await;
            let request = self.request(number);
            requests.spawn(request);
        }
        let mut times = Vec::with_capacity(count);
        while let Some(done) = requests.join_next().await {
            times.extend(done.context("a request panicked")?);
        }
        times.sort_unstable();
        let failed = count - times.len();
        Ok(Outcome { times, failed })
    }

    fn request(&self, number: usize) -> impl Future<Output = Option<Duration>> + Send + 'static {
        let target = &self.targets[self.next.fetch_add(1, Ordering::Relaxed) % self.targets.len()];
        // Each prompt has a unique beginning, so that no prefix is shared and the requests spread over all endpoints.
        let content = format!("{number} {}", "lorem ipsum dolor sit amet ".repeat(36));
        let body = json!({
            "model": self.model, "max_tokens": 1, "messages": [{"role": "user", "content": content}],
        });
        let request = self.client.post(format!("{target}/v1/chat/completions")).body(body.to_string());
        let request = request.header("content-type", "application/json");
        async move {
            let start = Instant::now();
            let response = request.send().await.ok()?.error_for_status().ok()?;
            response.bytes().await.ok()?;
            Some(start.elapsed())
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// The number of sent requests.
    pub(crate) fn sent(&self) -> usize {
        self.times.len() + self.failed
    }

    /// Returns a percentile of the response times, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let last = self.times.len().saturating_sub(1);
        self.times.get(last * percent / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}
