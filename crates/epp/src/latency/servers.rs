//! The prediction servers and the training server, and how they are called.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Request, header};
use http_body_util::Full;
use rand::seq::IndexedRandom as _;

use super::{settings::LatencyServers, wire::PredictError};
use crate::companion::{self, CompanionClient, Health};

/// How long a request waits for its predictions. The reference gives every producer this time.
pub(crate) const PREDICTION_TIMEOUT: Duration = Duration::from_millis(400);

pub(super) struct Servers {
    pub(super) settings: LatencyServers,
    client: CompanionClient,
    /// The recent health of each prediction server.
    pub(super) predictions: Vec<(String, Arc<Health>)>,
}

impl Servers {
    /// Servers that are called from a pod of this namespace.
    pub(super) fn new(settings: LatencyServers, namespace: &str) -> Self {
        let warning = "The latency predictor does not answer, so requests are scheduled without predictions.";
        let predictions = settings.predictions.iter().map(|url| (url.clone(), Health::new(warning)));
        Self { client: companion::client(namespace), predictions: predictions.collect(), settings }
    }

    /// Returns one of the prediction servers whose calls are not paused.
    pub(super) fn prediction(&self) -> Option<&(String, Arc<Health>)> {
        let well: Vec<_> = self.predictions.iter().filter(|(_, health)| !health.is_paused()).collect();
        let chosen = well.choose(&mut rand::rng())?;
        chosen.1.may_send().then_some(*chosen)
    }

    /// Sends JSON, and returns the answer of at most `limit` bytes.
    pub(super) async fn post(
        &self,
        url: String,
        body: serde_json::Result<Vec<u8>>,
        limit: usize,
    ) -> Result<BytesMut, PredictError> {
        let malformed = |error: &dyn std::error::Error| PredictError::Malformed(error.to_string());
        let request = Request::post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.map_err(|error| malformed(&error))?)))
            .map_err(|error| malformed(&error))?;
        companion::read::<PredictError>(self.client.request(request), limit, |_| Ok(())).await
    }
}
