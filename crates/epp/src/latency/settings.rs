//! The addresses and limits of the predictor, from the picker's environment.

use std::{str::FromStr, time::Duration};

use crate::{companion, error::Error};

/// The servers, and the limits for calls to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LatencyServers {
    /// The training server.
    pub(super) training: String,
    /// The prediction servers. Each call goes to one of them.
    pub(super) predictions: Vec<String>,
    /// The most measurements in one call. If there are more, a random sample is sent.
    pub(super) max_samples: usize,
    /// How often measurements are sent.
    pub(super) flush: Duration,
    /// How long the training server may take to answer.
    pub(super) patience: Duration,
    /// The most endpoints in one question. A request with more endpoints asks several questions.
    pub(super) max_bulk: usize,
    /// How long a question waits for others, to be sent together. 0 sends each question alone.
    pub(super) window: Duration,
    /// The most endpoints in one call.
    pub(super) max_rows: usize,
    /// The most calls at once.
    pub(super) at_once: usize,
}

/// The most rows that a prediction server accepts in one call.
const MAX_BATCH_ROWS: usize = 10_000;
/// The limit of `max_samples`. More would need too much memory and time.
const MAX_SAMPLES: usize = 100_000;
/// The limit of all times, in seconds.
const MAX_TIME_SECONDS: usize = 3600;

impl LatencyServers {
    /// Reads the settings from variables.
    ///
    /// # Errors
    /// The variable that cannot be used, and the expected value.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let get = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let url = |name: &'static str, value: &str| {
            companion::address(value.trim()).map_err(|expected| wrong(name, value, expected))
        };
        let training = get("TRAINING_SERVER_URL").unwrap_or_else(|| "http://localhost:8000".to_owned());
        let predictions = get("PREDICTION_SERVER_URL").unwrap_or_else(|| "http://localhost:8001".to_owned());
        let predictions = predictions.split(',').filter(|part| !part.trim().is_empty());
        let number = |name: &'static str, usual: usize, least: usize, most: usize| match get(name) {
            None => Ok(usual),
            Some(value) => {
                let number = usize::from_str(value.trim()).ok();
                let number = number.filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| wrong(name, &value, format!("expected a number from {least} to {most}")))
            }
        };
        let seconds = |name: &'static str, usual: usize| {
            number(name, usual, 1, MAX_TIME_SECONDS).map(|count| Duration::from_secs(count as u64))
        };
        let max_rows = number("LATENCY_MAX_COALESCED_ROWS", 0, 0, MAX_BATCH_ROWS)?;
        Ok(Self {
            training: url("TRAINING_SERVER_URL", &training)?,
            predictions: predictions
                .map(|part| url("PREDICTION_SERVER_URL", part))
                .collect::<Result<_, _>>()?,
            max_samples: number("LATENCY_MAX_SAMPLE_SIZE", 1000, 1, MAX_SAMPLES)?,
            flush: seconds("LATENCY_FLUSH_INTERVAL_SEC", 1)?,
            patience: seconds("LATENCY_HTTP_TIMEOUT_SEC", 10)?,
            max_bulk: number("LATENCY_MAX_BULK_SIZE", 100, 1, 100)?,
            window: Duration::from_millis(number("LATENCY_COALESCE_WINDOW_MS", 1, 0, 100)? as u64),
            max_rows: if max_rows == 0 { MAX_BATCH_ROWS } else { max_rows },
            at_once: number("LATENCY_MAX_CONCURRENT_DISPATCHES", 36, 1, 1024)?,
        })
    }
}

fn wrong(variable: &'static str, value: &str, expected: String) -> Error {
    Error::Variable { variable, value: value.to_owned(), expected }
}
