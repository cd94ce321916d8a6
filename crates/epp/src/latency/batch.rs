//! Sends the questions of several requests to a prediction server together, because its model predicts many rows at once.

use std::{sync::Arc, time::Duration};

use longboat_scheduler::{Features, Prediction};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    servers::{PREDICTION_TIMEOUT, Servers},
    wire::{self, PredictError},
};
use crate::{companion::AnswerError, pool::pass_panic_on};

/// The rows of one request, and the channel for the answer.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) rows: Vec<Features>,
    pub(super) answer: oneshot::Sender<Result<Vec<Prediction>, PredictError>>,
}

/// An answer may have this many bytes per row, plus a fixed number.
const ANSWER_ROW: usize = 1024;
const ANSWER_SPARE: usize = 4096;

/// Sends questions until it is stopped.
pub(super) async fn run(servers: Arc<Servers>, waiting: mpsc::Receiver<Question>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(servers.settings.at_once));
    let mut calls = JoinSet::new();
    let mut batches = Batches { waiting, next: None };
    loop {
        // A `JoinSet` keeps tasks that have ended until somebody asks for them.
        while let Some(ended) = calls.try_join_next() {
            pass_panic_on(ended);
        }
        let gathered = async {
            // While all places are taken, questions gather in the channel.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            let batch = batches.next(servers.settings.window, servers.settings.max_rows).await?;
            Some((place, batch))
        };
        let Some(Some((place, batch))) = stop.run_until_cancelled(gathered).await else { return };
        let servers = Arc::clone(&servers);
        calls.spawn(async move {
            let _place = place;
            answer(&servers, batch).await;
        });
    }
}

/// Gathers questions into batches.
struct Batches {
    waiting: mpsc::Receiver<Question>,
    /// A question that did not fit into the previous batch.
    next: Option<Question>,
}

impl Batches {
    /// Returns the questions of the next batch. Returns `None` if no more questions can come.
    async fn next(&mut self, window: Duration, max_rows: usize) -> Option<Vec<Question>> {
        let first = match self.next.take() {
            Some(question) => question,
            None => self.waiting.recv().await?,
        };
        let mut rows = first.rows.len();
        let mut batch = vec![first];
        if window.is_zero() {
            return Some(batch);
        }
        let end = Instant::now() + window;
        while rows < max_rows {
            let Ok(Some(question)) = timeout_at(end, self.waiting.recv()).await else { break };
            if rows + question.rows.len() > max_rows {
                self.next = Some(question);
                break;
            }
            rows += question.rows.len();
            batch.push(question);
        }
        Some(batch)
    }
}

/// Asks a server, and gives each request its part of the answer.
async fn answer(servers: &Servers, mut batch: Vec<Question>) {
    // Questions of requests that no longer wait are dropped.
    batch.retain(|question| !question.answer.is_closed());
    if batch.is_empty() {
        return;
    }
    let Some((url, health)) = servers.prediction() else {
        for question in batch {
            let _ = question.answer.send(Err(PredictError::Busy));
        }
        return;
    };
    let attempt = health.start_call(PREDICTION_TIMEOUT);
    // Requests wait at most this long, so the call ends then too.
    let answer = timeout(PREDICTION_TIMEOUT, call(servers, url, &batch)).await;
    match answer.unwrap_or(Err(PredictError::Late)) {
        Ok(mut predictions) => {
            attempt.answered();
            for question in batch {
                let rest = predictions.split_off(question.rows.len().min(predictions.len()));
                let _ = question.answer.send(Ok(std::mem::replace(&mut predictions, rest)));
            }
        }
        Err(error) => {
            let text = error.to_string();
            tracing::debug!(error = text, "Scheduling requests without predictions.");
            attempt.failed();
            for question in batch {
                let _ = question
                    .answer
                    .send(Err(PredictError::Companion(AnswerError::Unreachable(text.clone()))));
            }
        }
    }
}

async fn call(servers: &Servers, url: &str, batch: &[Question]) -> Result<Vec<Prediction>, PredictError> {
    let rows: usize = batch.iter().map(|question| question.rows.len()).sum();
    let body = wire::question(batch.iter().flat_map(|question| &question.rows));
    let limit = rows.saturating_mul(ANSWER_ROW).saturating_add(ANSWER_SPARE);
    wire::parse(&servers.post(format!("{url}/predict/bulk/strict"), body, limit).await?, rows)
}
