//! Sends the request to the prefiller first, and then to the decoder with the prefiller's response.

use bytes::Bytes;
use http::Response;

use super::{Flow, Head, Route, prefill};
use crate::{
    body::ProxyBody,
    connectors::{DecodeBuilder, Part},
    metrics::Outcome,
    target::Target,
};

// === impl Flow ===

impl Flow<'_> {
    /// `original` is the decoder's request if the prefiller fails and the decoder may do both.
    pub(super) async fn in_turn(
        &self,
        head: &Head,
        original: &Bytes,
        prefill: Part,
        decode: DecodeBuilder<'_>,
        route: &Route<'_>,
        target: &Target,
    ) -> Response<ProxyBody> {
        let prefilled = self.prefiller().ask(head, &prefill, target).await;
        // The decoder may stream for minutes. The prefiller's body is not needed any more.
        drop(prefill);
        let decode = prefilled.and_then(|answer| {
            decode(&answer)
                .map_err(|error| prefill::unusable(target, &format!("is not a JSON object: {error}")))
        });
        match decode {
            Ok(decode) => {
                self.metrics.count(Outcome::Disaggregated);
                self.decode(head, decode.part, route.engine, decode.cached_tokens).await
            }
            Err(failure) => self.failed(head, original, failure, route).await,
        }
    }
}
