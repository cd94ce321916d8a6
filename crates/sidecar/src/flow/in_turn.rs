//! The prefiller first, and the decoder with what it answered.

use bytes::Bytes;
use http::Response;

use super::{Flow, Head, Route, prefill};
use crate::{
    body::ProxyBody,
    connectors::{Continue, Part},
    metrics::Outcome,
};

// === impl Flow ===

impl Flow<'_> {
    /// `original` is what the decoder is asked where the prefiller fails and it may do both.
    pub(super) async fn in_turn(
        &self,
        head: &Head,
        original: &Bytes,
        prefill: Part,
        decode: Continue<'_>,
        route: &Route<'_>,
    ) -> Response<ProxyBody> {
        let prefilled = self.prefiller().ask(head, &prefill, route.prefiller).await;
        drop(prefill);
        let decode = prefilled.and_then(|answer| {
            decode(&answer).map_err(|error| {
                prefill::unusable(route.prefiller, &format!("is not a JSON object: {error}"))
            })
        });
        match decode {
            Ok(decode) => {
                self.metrics.count(Outcome::Disaggregated);
                self.decode(head, decode.part, route.engine, decode.cached_tokens).await
            }
            Err(failure) if self.settings.fall_back && !failure.is_request_error => {
                self.metrics.count(Outcome::FellBack);
                self.decode_alone(head, original, route.engine).await
            }
            Err(failure) => {
                self.metrics.count(Outcome::PrefillFailed);
                failure.answer
            }
        }
    }
}
