//! How long a request is predicted to take on each endpoint, and what its response teaches the predictor.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use longboat_scheduler::{Features, LatencySettings, Prediction, Slot, Wanted};
use tokio::time::Instant;

use crate::{
    latency::{Lesson, Predictor},
    metrics::{LatencyMetrics, RequestLabels, Time, Usage},
};

/// What is known about a request on the endpoints that it may go to.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    pub(super) features: Vec<(Slot, Features)>,
    pub(super) predictions: Vec<(Slot, Prediction)>,
}

/// A request in flight, watched for what it teaches.
pub(super) struct Watched {
    predictor: Arc<Predictor>,
    since: Instant,
    wanted: Wanted,
    /// Who computes the prompt: what was known about it, and what was predicted.
    prefill: (Features, Prediction),
    /// The same of who decodes.
    decode: (Features, Prediction),
    first: Option<Duration>,
    /// The parts of its stream.
    chunks: u64,
    failed: bool,
}

impl Watched {
    /// Goes to one endpoint to decode, and to another first, where that is so. `None`: nothing is known about them.
    pub(super) fn new(
        predictor: &Arc<Predictor>,
        forecast: &Forecast,
        wanted: Wanted,
        decode: Slot,
        prefill: Option<Slot>,
    ) -> Option<Self> {
        let find = |slot: Slot| {
            let features = forecast.features.iter().find(|(known, _)| *known == slot)?.1.clone();
            let prediction = forecast.predictions.iter().find(|(known, _)| *known == slot);
            Some((features, prediction.map(|(_, prediction)| *prediction).unwrap_or_default()))
        };
        Some(Self {
            predictor: Arc::clone(predictor),
            since: Instant::now(),
            wanted,
            prefill: find(prefill.unwrap_or(decode))?,
            decode: find(decode)?,
            first: None,
            chunks: 0,
            failed: false,
        })
    }

    /// The model server failed: how long that took teaches nothing.
    pub(super) fn failed(&mut self) {
        self.failed = true;
    }

    /// A part of the response came. Only of a stream does it say when the first token was there.
    pub(super) fn chunk(&mut self, settings: &LatencySettings, stream: bool) {
        self.chunks += 1;
        if self.first.is_none() && settings.streaming && stream && !self.failed {
            let first = self.since.elapsed();
            self.first = Some(first);
            self.learn(self.prefill.0.clone(), millis(first), 0.0);
        }
    }

    /// The response is complete. `now` is what is known about the endpoint at its end.
    pub(super) fn complete(
        self,
        settings: &LatencySettings,
        (metrics, labels): (&LatencyMetrics, &RequestLabels),
        usage: Option<Usage>,
        now: Option<&longboat_scheduler::Metrics>,
    ) {
        let took = self.since.elapsed();
        if self.failed || took > settings.longest {
            return;
        }
        let first = match self.first {
            Some(first) => first,
            None if settings.streaming => return,
            None => {
                self.learn(self.prefill.0.clone(), millis(took), 0.0);
                took
            }
        };
        let times = (first.as_secs_f64(), self.prefill.1.ttft_ms / 1000.0, self.wanted.ttft_ms / 1000.0);
        metrics.measured(&settings.name, labels, Time::First, times);
        let generated = usage.map(|usage| usage.output).filter(|tokens| *tokens > 1).unwrap_or(self.chunks);
        if !settings.streaming || generated < 2 {
            return;
        }
        let further = took.saturating_sub(first).as_secs_f64() / count(generated - 1);
        if further <= 0.0 {
            return;
        }
        let times = (further, self.decode.1.tpot_ms / 1000.0, self.wanted.tpot_ms / 1000.0);
        metrics.measured(&settings.name, labels, Time::Further, times);
        let mut features = self.decode.0.clone();
        features.prefix_ratio = 0.0;
        if let Some(now) = now {
            features.load(now);
        }
        self.learn(features, 0.0, further * 1000.0);
    }

    fn learn(&self, features: Features, ttft_ms: f64, tpot_ms: f64) {
        self.predictor.learn(Lesson { features, ttft_ms, tpot_ms, at: Timestamp::now() });
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn count(tokens: u64) -> f64 {
    tokens as f64
}
