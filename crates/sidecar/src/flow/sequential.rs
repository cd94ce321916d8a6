//! Sends the request to the prefiller first, and then to the decoder with the prefiller's response.

use http::Response;

use super::{
    engines::{Flow, RequestContext},
    prefill,
};
use crate::{
    body::ProxyBody,
    connectors::{DecodeBuilder, Part},
    metrics::Outcome,
};

// === impl Flow ===

impl Flow {
    pub(super) async fn run_sequential(
        &self,
        request: &RequestContext<'_>,
        prefill: Part,
        decode: DecodeBuilder<'_>,
    ) -> Response<ProxyBody> {
        let &RequestContext { head, route, prefiller, .. } = request;
        let prefilled = self.prefiller().ask(head, &prefill, prefiller).await;
        // The decoder may stream for minutes. The prefiller's body is not needed any more.
        drop(prefill);
        let decode = prefilled.and_then(|answer| {
            decode(&answer)
                .map_err(|error| prefill::unusable(prefiller, &format!("is not a JSON object: {error}")))
        });
        match decode {
            Ok(decode) => {
                self.metrics.count(Outcome::Disaggregated);
                self.decode(head, decode.part, route.engine, decode.cached_tokens).await
            }
            Err(failure) => self.failed(request, failure).await,
        }
    }
}
