//! Keeps the measurements of responses, and sends them to the training server.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::Rng as _;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    servers::{PREDICTION_TIMEOUT, Servers},
    wire::{self, PredictError, TrainingSample},
};
use crate::{companion::Health, metrics::LatencyMetrics};

/// The most bytes of the training server's answer. The answer only counts the accepted measurements, and the picker does not
/// need it.
const MAX_ANSWER_BYTES: usize = 1 << 16;

/// Measurements that wait to be sent.
#[derive(Debug)]
pub(super) struct TrainingBuffer {
    max_samples: usize,
    reservoir: Mutex<Reservoir>,
}

#[derive(Debug, Default)]
struct Reservoir {
    samples: Vec<TrainingSample>,
    /// The number of measurements since the last call.
    seen: usize,
}

impl TrainingBuffer {
    pub(super) fn new(max_samples: usize) -> Self {
        Self { max_samples, reservoir: Mutex::default() }
    }

    /// Keeps a measurement. If there are more than one call may send, each is kept with the same probability.
    pub(super) fn add(&self, sample: TrainingSample) {
        let mut reservoir = self.reservoir.lock();
        reservoir.seen += 1;
        if reservoir.samples.len() < self.max_samples {
            reservoir.samples.push(sample);
            return;
        }
        let place = rand::rng().random_range(0..reservoir.seen);
        if let Some(other) = reservoir.samples.get_mut(place) {
            *other = sample;
        }
    }

    fn take(&self) -> Vec<TrainingSample> {
        std::mem::take(&mut *self.reservoir.lock()).samples
    }
}

/// Sends measurements until it is stopped, and sends the rest at the end.
pub(super) async fn run(
    servers: Arc<Servers>,
    buffer: Arc<TrainingBuffer>,
    metrics: LatencyMetrics,
    stop: CancellationToken,
) {
    let warning = "The training server of the latency predictor does not answer, so the training data of responses \
         is lost.";
    let health = Health::new(warning);
    let mut turns = interval(servers.settings.flush);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let stopping = stop.run_until_cancelled(turns.tick()).await.is_none();
        let samples = buffer.take();
        if !samples.is_empty() && health.may_send() {
            let longest = if stopping { PREDICTION_TIMEOUT } else { Duration::MAX };
            let patience = servers.settings.patience.min(longest);
            let call = health.start_call(patience);
            let url = format!("{}/add_training_data_bulk", servers.settings.training);
            let sent = servers.post(url, wire::samples(&samples), MAX_ANSWER_BYTES);
            let sent = timeout(patience, sent).await.unwrap_or(Err(PredictError::Late));
            metrics.count_training(if sent.is_ok() { "answered" } else { "failed" });
            match sent {
                Ok(_) => call.answered(),
                Err(error) => {
                    tracing::debug!(
                        %error,
                        samples = samples.len(),
                        "Cannot send training data to the latency predictor."
                    );
                    call.failed();
                }
            }
        }
        if stopping {
            return;
        }
    }
}
