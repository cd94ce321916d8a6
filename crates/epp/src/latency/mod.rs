//! The client of a latency predictor, as llm-d deploys it beside the picker. Prediction servers predict how long a request
//! would take on an endpoint. A training server receives the measured times.
//!
//! Requests do not wait long for predictions. A request goes on without them if they do not come within [`PREDICTION_TIMEOUT`] or if no
//! server can be asked now.

use std::{fmt, sync::Arc};

use futures::future::try_join_all;
use longboat_scheduler::{Features, Prediction};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{metrics::LatencyMetrics, pool::pass_panic_on};

mod batch;
mod servers;
mod settings;
mod training;
mod wire;

pub(crate) use servers::PREDICTION_TIMEOUT;
pub(crate) use settings::LatencyServers;
pub(crate) use wire::{PredictError, TrainingSample, parse};

use batch::Question;
use servers::Servers;
use training::TrainingBuffer;

/// The most questions that wait to be sent. Further requests go on without predictions.
const MAX_QUEUED_QUERIES: usize = 1024;

/// The predictor.
pub(crate) struct Predictor {
    servers: Arc<Servers>,
    questions: mpsc::Sender<Question>,
    /// The receiving end of `questions`, until the sending task takes it.
    waiting: Mutex<Option<mpsc::Receiver<Question>>>,
    samples: Arc<TrainingBuffer>,
    metrics: LatencyMetrics,
}

impl fmt::Debug for Predictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predictor").field("settings", &self.servers.settings).finish_non_exhaustive()
    }
}

impl Predictor {
    /// Creates a predictor that is called from a pod of this namespace.
    pub(crate) fn new(settings: LatencyServers, namespace: &str, metrics: LatencyMetrics) -> Arc<Self> {
        let (questions, waiting) = mpsc::channel(MAX_QUEUED_QUERIES);
        Arc::new(Self {
            questions,
            waiting: Mutex::new(Some(waiting)),
            samples: Arc::new(TrainingBuffer::new(settings.max_samples)),
            servers: Arc::new(Servers::new(settings, namespace)),
            metrics,
        })
    }

    /// Sends questions and training data until it is stopped.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let waiting = self.waiting.lock().take();
        if let Some(waiting) = waiting {
            tasks.spawn(batch::run(Arc::clone(&self.servers), waiting, stop.clone()));
        }
        let samples = Arc::clone(&self.samples);
        tasks.spawn(training::run(Arc::clone(&self.servers), samples, self.metrics.clone(), stop));
        while let Some(ended) = tasks.join_next().await {
            pass_panic_on(ended);
        }
    }

    /// Returns the predictions for these features, in the same order, within [`PREDICTION_TIMEOUT`].
    pub(crate) async fn predict(&self, features: Vec<Features>) -> Result<Vec<Prediction>, PredictError> {
        let mut answers = Vec::new();
        for rows in features.chunks(self.servers.settings.max_bulk) {
            let (answer, answered) = oneshot::channel();
            let question = Question { rows: rows.to_vec(), answer };
            self.questions.try_send(question).map_err(|_| PredictError::Busy)?;
            // A question that is dropped was not asked, because the picker stops.
            answers.push(async { answered.await.unwrap_or(Err(PredictError::Busy)) });
        }
        let all =
            timeout(PREDICTION_TIMEOUT, try_join_all(answers)).await.map_err(|_| PredictError::Late)??;
        Ok(all.concat())
    }

    /// Whether any server may be asked now. If not, requests do not wait at all.
    pub(crate) fn may_send(&self) -> bool {
        self.servers.predictions.iter().any(|(_, health)| !health.is_paused())
    }

    /// Keeps the measurements of a response until they are sent.
    pub(crate) fn learn(&self, sample: TrainingSample) {
        self.samples.add(sample);
    }
}

#[cfg(test)]
pub(crate) mod tests;
