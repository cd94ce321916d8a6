//! The JSON of the predictor's servers: requests and responses.

use jiff::Timestamp;
use longboat_scheduler::{Features, Prediction};
use serde::{Deserialize, Serialize};

use crate::companion::AnswerError;

/// A measured time, and the features when the measurement began. The time that was not measured is 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrainingSample {
    pub(crate) features: Features,
    /// Milliseconds until the first token.
    pub(crate) ttft_ms: f64,
    /// Milliseconds for each further token.
    pub(crate) tpot_ms: f64,
    pub(crate) at: Timestamp,
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

/// The features of a request on an endpoint.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    kv_cache_percentage: f64,
    input_token_length: u64,
    num_request_waiting: u64,
    num_request_running: u64,
    num_tokens_generated: u64,
    prefix_cache_score: f64,
    encoder_input_size: u64,
    encoder_matched_size: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    pod_type: &'a str,
    prefill_tokens_in_flight: u64,
    decode_tokens_in_flight: u64,
}

impl<'a> Row<'a> {
    fn new(features: &'a Features, generated: u64) -> Self {
        Self {
            kv_cache_percentage: features.kv_usage,
            input_token_length: features.input_tokens,
            num_request_waiting: features.waiting,
            num_request_running: features.running,
            num_tokens_generated: generated,
            prefix_cache_score: features.prefix_ratio,
            encoder_input_size: features.encoder_items,
            encoder_matched_size: features.encoder_matched,
            pod_type: &features.role,
            prefill_tokens_in_flight: features.prefill_tokens,
            decode_tokens_in_flight: 0,
        }
    }
}

/// A measurement.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    actual_ttft_ms: f64,
    actual_tpot_ms: f64,
    timestamp: String,
}

/// Builds the body of a prediction request.
pub(super) fn question<'a>(rows: impl Iterator<Item = &'a Features>) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Body<'a> {
        requests: Vec<Row<'a>>,
    }
    // The question is about the first token, so one token is generated.
    serde_json::to_vec(&Body { requests: rows.map(|features| Row::new(features, 1)).collect() })
}

/// Builds the body of a training request.
pub(super) fn samples(samples: &[TrainingSample]) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Body<'a> {
        entries: Vec<Entry<'a>>,
    }
    let entries = samples.iter().map(|sample| Entry {
        row: Row::new(&sample.features, 0),
        actual_ttft_ms: sample.ttft_ms,
        actual_tpot_ms: sample.tpot_ms,
        timestamp: sample.at.to_string(),
    });
    serde_json::to_vec(&Body { entries: entries.collect() })
}

/// Reads an answer for this number of rows. Unknown fields are ignored.
pub(crate) fn parse(answer: &[u8], rows: usize) -> Result<Vec<Prediction>, PredictError> {
    #[derive(Deserialize)]
    struct Answer {
        predictions: Vec<PredictionRow>,
    }
    #[derive(Deserialize)]
    struct PredictionRow {
        ttft_ms: f64,
        tpot_ms: f64,
    }
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|error| PredictError::Malformed(error.to_string()))?;
    if answer.predictions.len() != rows {
        let found = answer.predictions.len();
        return Err(PredictError::Malformed(format!("{found} predictions for {rows} endpoints")));
    }
    let read = |predicted: &PredictionRow| {
        let times = [predicted.ttft_ms, predicted.tpot_ms];
        if times.iter().all(|time| time.is_finite() && *time >= 0.0) {
            return Ok(Prediction { ttft_ms: predicted.ttft_ms, tpot_ms: predicted.tpot_ms });
        }
        Err(PredictError::Malformed("a time below 0".to_owned()))
    };
    answer.predictions.iter().map(read).collect()
}
