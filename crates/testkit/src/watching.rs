//! Watches that deliver events late, twice, in another order, or not at all.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};

/// The longest delay of an event.
const MAX_DELAY_MS: u64 = 3000;
/// How long an event waits for another event with which it is swapped.
const SWAP_WITHIN: Duration = Duration::from_millis(200);
/// The number of events between two losses.
const LOST_EVERY: u32 = 4;

/// How the events of watches are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// Without changes.
    #[default]
    Calm,
    /// Late, with different delays in each watch. So a change of one kind may be seen after a later change of another kind.
    Delayed,
    /// With losses: the server has forgotten some events and reports that.
    Lost,
    /// With interruptions: each watch ends again and again in the middle of its events.
    Cut,
    /// Each event twice.
    Twice,
    /// With events of different objects swapped.
    Swapped,
}

/// The response that a client gets.
pub(crate) type Reply = Response<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// Changes the delivery of a watch's events in this way.
pub(crate) fn through(answer: Response<Body>, how: Watching) -> Reply {
    if how == Watching::Calm || !answer.status().is_success() {
        return answer.map(|body| body.map_err(Into::into).boxed_unsync());
    }
    answer.map(|body| {
        let state = State {
            lines: Lines::of(body),
            how,
            seed: 0x9e37_79b9,
            count: 0,
            next: VecDeque::new(),
            ended: false,
        };
        let frames = stream::unfold(state, |mut state| async move {
            let line = state.next().await?;
            Some((Ok(Frame::data(line)), state))
        });
        StreamBody::new(frames).boxed_unsync()
    })
}

/// The lines of a response body.
struct Lines {
    chunks: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    rest: Vec<u8>,
}

struct State {
    lines: Lines,
    how: Watching,
    /// The seed of the random numbers, which are the same in every run.
    seed: u64,
    count: u32,
    next: VecDeque<Bytes>,
    ended: bool,
}

// === impl Lines ===

impl Lines {
    fn of(body: Body) -> Self {
        // A body that ends with an error ends the watch, which then starts again.
        let chunks = body.into_data_stream().filter_map(async |chunk| chunk.ok());
        Self { chunks: Box::pin(chunks), rest: Vec::new() }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                return Some(std::mem::replace(&mut self.rest, rest).into());
            }
            self.rest.extend_from_slice(&self.chunks.next().await?);
        }
    }
}

// === impl State ===

impl State {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(line) = self.next.pop_front() {
            return Some(line);
        }
        if self.ended {
            return None;
        }
        let line = self.lines.next().await?;
        let Some(event) = event(&line) else { return Some(line) };
        self.count += 1;
        match self.how {
            Watching::Delayed => {
                let delay = self.random() % MAX_DELAY_MS;
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            Watching::Lost if self.count.is_multiple_of(LOST_EVERY) => {
                self.ended = true;
                return Some(expired());
            }
            Watching::Cut if self.count.is_multiple_of(LOST_EVERY) => return None,
            Watching::Calm | Watching::Lost | Watching::Cut => {}
            Watching::Twice => self.next.push_back(line.clone()),
            Watching::Swapped => {
                if let Ok(other) = tokio::time::timeout(SWAP_WITHIN, self.lines.next()).await {
                    let Some(other) = other else {
                        self.ended = true;
                        return Some(line);
                    };
                    // The events of one object keep their order, as in every real watch.
                    if self::event(&other).is_some_and(|other| other != event) {
                        self.next.push_back(line);
                        return Some(other);
                    }
                    self.next.push_back(other);
                }
            }
        }
        Some(line)
    }

    /// Returns the next pseudo-random number.
    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }
}

/// Returns the object of an event, or `None` if the line is not an event of an object.
fn event(line: &[u8]) -> Option<[String; 2]> {
    let event: Value = serde_json::from_slice(line).ok()?;
    if !matches!(event["type"].as_str()?, "ADDED" | "MODIFIED" | "DELETED") {
        return None;
    }
    let metadata = &event["object"]["metadata"];
    Some(["namespace", "name"].map(|field| metadata[field].as_str().unwrap_or_default().to_owned()))
}

fn expired() -> Bytes {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version",
    });
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}
