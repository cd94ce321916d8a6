//! The client of a latency predictor, as llm-d deploys it beside the picker. Prediction servers predict how long a request
//! would take on an endpoint. A training server receives the measured times.
//!
//! Requests do not wait long for predictions. A request goes on without them if they do not come within [`PREDICTION_TIMEOUT`] or if no
//! server can be asked now.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::try_join_all;
use longboat_scheduler::{Features, Prediction};
use parking_lot::Mutex;
use rand::seq::IndexedRandom as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    companion::{self, AnswerError, CompanionClient, Health},
    metrics::LatencyMetrics,
};

mod batch;
mod settings;
mod training;
mod wire;

pub(crate) use settings::LatencyServers;
pub(crate) use wire::TrainingSample;
pub(crate) use wire::parse;

use batch::Question;
use training::TrainingBuffer;

/// How long a request waits for its predictions. The reference gives every producer this time.
pub(crate) const PREDICTION_TIMEOUT: Duration = Duration::from_millis(400);
/// The most questions that wait to be sent. Further requests go on without predictions.
const MAX_QUEUED_QUERIES: usize = 1024;

/// The predictor.
pub(crate) struct Predictor {
    settings: LatencyServers,
    client: CompanionClient,
    /// The recent health of each prediction server.
    servers: Vec<(String, Arc<Health>)>,
    questions: mpsc::Sender<Question>,
    /// The receiving end of `questions`, until the sending task takes it.
    waiting: Mutex<Option<mpsc::Receiver<Question>>>,
    samples: TrainingBuffer,
    metrics: LatencyMetrics,
}

impl fmt::Debug for Predictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predictor").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Why there are no predictions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PredictError {
    #[error("the latency predictor does not answer: {0}")]
    Companion(#[from] AnswerError),
    #[error("cannot read the response of the latency predictor: {0}")]
    Malformed(String),
    #[error("the latency predictor does not answer in time")]
    Late,
    #[error("the latency predictor is overloaded, or requests to it are paused after failures")]
    Busy,
}

impl Predictor {
    /// Creates a predictor that is called from a pod of this namespace.
    pub(crate) fn new(settings: LatencyServers, namespace: &str, metrics: LatencyMetrics) -> Arc<Self> {
        let (questions, waiting) = mpsc::channel(MAX_QUEUED_QUERIES);
        let warning = "The latency predictor does not answer, so requests are scheduled without predictions.";
        Arc::new(Self {
            client: companion::client(namespace),
            servers: settings.predictions.iter().map(|url| (url.clone(), Health::new(warning))).collect(),
            questions,
            waiting: Mutex::new(Some(waiting)),
            samples: TrainingBuffer::new(settings.max_samples),
            settings,
            metrics,
        })
    }

    /// Sends questions and training data until it is stopped.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let waiting = self.waiting.lock().take();
        if let Some(waiting) = waiting {
            tasks.spawn(batch::run(Arc::clone(&self), waiting, stop.clone()));
        }
        tasks.spawn(training::run(self, stop));
        while tasks.join_next().await.is_some() {}
    }

    /// Returns the predictions for these features, in the same order, within [`PREDICTION_TIMEOUT`].
    pub(crate) async fn predict(&self, features: Vec<Features>) -> Result<Vec<Prediction>, PredictError> {
        let mut answers = Vec::new();
        for rows in features.chunks(self.settings.max_bulk) {
            let (answer, answered) = oneshot::channel();
            let question = Question { rows: rows.to_vec(), answer };
            self.questions.try_send(question).map_err(|_| PredictError::Busy)?;
            answers.push(async { answered.await.unwrap_or(Err(PredictError::Busy)) });
        }
        let all =
            timeout(PREDICTION_TIMEOUT, try_join_all(answers)).await.map_err(|_| PredictError::Late)??;
        Ok(all.concat())
    }

    /// Whether any server may be asked now. If not, requests do not wait at all.
    pub(crate) fn may_send(&self) -> bool {
        self.servers.iter().any(|(_, health)| !health.is_paused())
    }

    /// Returns one of the servers whose calls are not paused.
    fn server(&self) -> Option<&(String, Arc<Health>)> {
        let well: Vec<_> = self.servers.iter().filter(|(_, health)| !health.is_paused()).collect();
        let chosen = well.choose(&mut rand::rng())?;
        chosen.1.may_send().then_some(*chosen)
    }

    /// Keeps the measurements of a response until they are sent.
    pub(crate) fn learn(&self, sample: TrainingSample) {
        self.samples.add(sample);
    }
}

#[cfg(test)]
pub(crate) mod tests;
