//! Sends the requests to both engines at the same time, and holds the decoder's response until the prefiller has succeeded.

use std::time::Duration;

use http::Response;

use super::engines::{Flow, RequestContext};
use crate::{answer, body::ProxyBody, connectors::Part, metrics::Outcome};

// === impl Flow ===

impl Flow {
    /// A prefill that fails, or takes longer than `patience`, cancels the decoder's request.
    pub(super) async fn held(
        &self,
        request: &RequestContext<'_>,
        prefill: Part,
        decode: Part,
        patience: Duration,
    ) -> Response<ProxyBody> {
        let &RequestContext { head, route, prefiller: target, .. } = request;
        let failure = {
            let upstream = self.prefiller();
            let mut prefill =
                std::pin::pin!(tokio::time::timeout(patience, upstream.ask(head, &prefill, target)));
            let mut decode = std::pin::pin!(self.decode(head, decode, route.engine, None));
            let mut early = None;
            loop {
                tokio::select! {
                    // The decoder's head may come before the prefiller has succeeded. It is held, because the client may
                    // still have to get an error.
                    answer = &mut decode, if early.is_none() => early = Some(answer),
                    ended = &mut prefill => match ended {
                        Ok(Ok(_)) => {
                            self.metrics.count(Outcome::Disaggregated);
                            return match early {
                                Some(answer) => answer,
                                None => decode.await,
                            };
                        }
                        Ok(Err(failure)) => break failure,
                        Err(_) if self.settings.fall_back => {
                            break super::prefill::failure("the prefill took too long");
                        }
                        Err(_) => {
                            self.metrics.count(Outcome::PrefillFailed);
                            tracing::warn!(target = %target.authority(), "A prefill request took too long.");
                            return answer::no_cache_in_time();
                        }
                    },
                }
            }
        };
        // The decoder's request was cancelled, so its engine is free for the whole request.
        self.failed(request, failure).await
    }
}
