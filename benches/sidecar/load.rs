//! An open loop: requests are sent at a fixed rate, and their times count from the scheduled moment.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Sends the same request repeatedly.
pub(crate) struct Load {
    client: reqwest::Client,
    url: String,
    accept: &'static str,
    prefiller: Option<SocketAddr>,
    body: Bytes,
}

/// The results of a load.
pub(crate) struct Outcome {
    /// Times to the first byte of the responses, ascending.
    times: Vec<Duration>,
}

impl Load {
    /// Creates a load for this address, with a prompt of this many bytes.
    pub(crate) fn new(
        address: SocketAddr,
        prompt: usize,
        stream: bool,
        prefiller: Option<SocketAddr>,
    ) -> Self {
        let words = "lorem ipsum \\\"dolor\\\" sit amet\\n ".repeat(prompt / 32);
        let body = json!({
            "model": "m", "max_tokens": 50, "temperature": 0.7, "stream": stream,
            "messages": [{"role": "system", "content": "You are kind."}, {"role": "user", "content": words}],
        });
        Self {
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            url: format!("http://{address}/v1/chat/completions"),
            accept: if stream { "text/event-stream" } else { "application/json" },
            prefiller,
            body: body.to_string().into(),
        }
    }

    /// Sends `rate` requests per second for `time`.
    pub(crate) async fn run(&self, rate: u32, time: Duration) -> Outcome {
        let (start, gap) = (Instant::now(), Duration::from_secs(1) / rate);
        let mut requests = JoinSet::new();
        for number in 0..rate * u32::try_from(time.as_secs()).unwrap() {
            let leaves = start + gap * number;
            sleep_until(leaves).await;
            let request = self.request();
            requests.spawn(async move {
                let mut answer = request.send().await.unwrap().error_for_status().unwrap();
                let mut first = None;
                while let Some(chunk) = answer.chunk().await.unwrap() {
                    first.get_or_insert_with(|| leaves.elapsed());
                    drop(chunk);
                }
                first.unwrap_or_else(|| panic!("an answer without a body"))
            });
        }
        let mut times = requests.join_all().await;
        times.sort_unstable();
        Outcome { times }
    }

    fn request(&self) -> reqwest::RequestBuilder {
        let request = self.client.post(&self.url).body(self.body.clone());
        let request = request.header("content-type", "application/json").header("accept", self.accept);
        match self.prefiller {
            Some(prefiller) => request.header("x-prefiller-host-port", prefiller.to_string()),
            None => request,
        }
    }
}

impl Outcome {
    /// The number of requests. All of them were answered.
    pub(crate) fn sent(&self) -> usize {
        self.times.len()
    }

    /// Returns a percentile of the times to the first byte, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
    }
}
