//! The predicted latency of a request on each endpoint, and the training data from its response.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use longboat_scheduler::{Features, LatencyObjective, LatencySettings, Prediction, Slot, Usage, float};
use tokio::time::Instant;

use crate::{
    latency::{Predictor, TrainingSample},
    metrics::{LatencyMetrics, RequestLabels, Time},
};

/// The features and predictions of a request for each endpoint that it may go to.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    pub(super) features: Vec<(Slot, Features)>,
    pub(super) predictions: Vec<(Slot, Prediction)>,
}

/// A request in flight whose times are measured for the predictor.
pub(super) struct LatencyMeasurement {
    predictor: Arc<Predictor>,
    since: Instant,
    objective: LatencyObjective,
    /// The features and the prediction for the endpoint that computes the prompt.
    prefill: (Features, Prediction),
    /// The features and the prediction for the endpoint that decodes.
    decode: (Features, Prediction),
    first: Option<Duration>,
    /// The number of chunks of the response.
    chunks: u64,
    failed: bool,
}

impl LatencyMeasurement {
    /// Starts to measure a request. `prefill` is the endpoint that computes the prompt, if it is another one than `decode`.
    /// Returns `None` if there are no features for one of the endpoints.
    pub(super) fn new(
        predictor: &Arc<Predictor>,
        forecast: &Forecast,
        objective: LatencyObjective,
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
            objective,
            prefill: find(prefill.unwrap_or(decode))?,
            decode: find(decode)?,
            first: None,
            chunks: 0,
            failed: false,
        })
    }

    /// Records that the model server failed. The times of a failed request are not used for training.
    pub(super) fn failed(&mut self) {
        self.failed = true;
    }

    /// Records a chunk of the response. Only a stream shows when the first token was ready.
    pub(super) fn chunk(&mut self, settings: &LatencySettings, stream: bool) {
        self.chunks += 1;
        if self.first.is_none() && settings.streaming && stream && !self.failed {
            let first = self.since.elapsed();
            self.first = Some(first);
            self.learn(self.prefill.0.clone(), millis(first), 0.0);
        }
    }

    /// Records that the response is complete. `now` contains the endpoint's metrics at this time.
    pub(super) fn complete(
        self,
        settings: &LatencySettings,
        (metrics, labels): (&LatencyMetrics, &RequestLabels),
        usage: Option<Usage>,
        now: Option<&longboat_scheduler::Metrics>,
    ) {
        let took = self.since.elapsed();
        if self.failed || took > settings.max_response {
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
        let times = (first.as_secs_f64(), self.prefill.1.ttft_ms / 1000.0, self.objective.ttft_ms / 1000.0);
        metrics.measured(&settings.name, labels, Time::First, times);
        let generated = usage.map(|usage| usage.output).filter(|tokens| *tokens > 1).unwrap_or(self.chunks);
        if !settings.streaming || generated < 2 {
            return;
        }
        let further = took.saturating_sub(first).as_secs_f64() / float(generated - 1);
        if further <= 0.0 {
            return;
        }
        let times = (further, self.decode.1.tpot_ms / 1000.0, self.objective.tpot_ms / 1000.0);
        metrics.measured(&settings.name, labels, Time::Further, times);
        let mut features = self.decode.0.clone();
        features.prefix_ratio = 0.0;
        if let Some(now) = now {
            features.load(now);
        }
        self.learn(features, 0.0, further * 1000.0);
    }

    fn learn(&self, features: Features, ttft_ms: f64, tpot_ms: f64) {
        self.predictor.learn(TrainingSample { features, ttft_ms, tpot_ms, at: Timestamp::now() });
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
