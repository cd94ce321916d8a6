//! Sends the requests to both engines at the same time. The engines find each other, and the client receives the decoder's
//! response.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::{
    engines::{Flow, RequestContext},
    head::Head,
    prefill::Failure,
};
use crate::{
    body::{BodyError, ProxyBody},
    connectors::{FailureCallback, Part},
    metrics::Outcome,
    target::Target,
};

/// How long a prefill may continue after the decoder's response is complete.
const PREFILL_DRAIN_TIMEOUT: Duration = Duration::from_mins(1);

// === impl Flow ===

impl Flow {
    pub(super) async fn at_once(
        &self,
        request: &RequestContext<'_>,
        prefill: Part,
        decode: Part,
        failed: Option<FailureCallback>,
    ) -> Response<ProxyBody> {
        let &RequestContext { head, original, route, prefiller } = request;
        let mut prefill = self.beside(head, prefill, failed, prefiller);
        let mut is_prefilled = false;
        let answer = {
            let mut decode = std::pin::pin!(self.decode(head, decode, route.engine, None));
            loop {
                tokio::select! {
                    // The decoder waits for the prefiller, so the prefiller is polled first.
                    biased;
                    ended = &mut prefill, if !is_prefilled => {
                        is_prefilled = true;
                        // As in the reference, the response of a prefill is discarded: the client gets what the decoder says.
                        let may_fall_back = self.settings.fall_back;
                        if matches!(ended, Err(failure) if may_fall_back && !failure.is_request_error) {
                            break None;
                        }
                    }
                    answer = &mut decode => break Some(answer),
                }
            }
        };
        let Some(answer) = answer else {
            // The decoder waits for a cache that will not arrive. Its request is dropped, and it receives the whole request
            // instead.
            self.metrics.count(Outcome::FellBack);
            return self.decode_alone(head, original, route.engine).await;
        };
        self.metrics.count(Outcome::Disaggregated);
        if is_prefilled {
            return answer;
        }
        // Dropping the prefill would cancel it, although the decoder may still be fetching its blocks. So it goes on in a
        // task.
        let (client, mut answered) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                _ = prefill => {}
                () = over(&mut answered) => {}
            }
        });
        answer.map(|body| WatchedBody { body, client: Client(Some(client)) }.boxed_unsync())
    }

    /// Starts a prefill whose response is discarded.
    fn beside(
        &self,
        head: &Head,
        part: Part,
        failed: Option<FailureCallback>,
        target: &Target,
    ) -> BoxFuture<'static, Result<(), Box<Failure>>> {
        let (prefiller, head, target) = (self.prefiller(), head.clone(), target.clone());
        let prefill = async move {
            let result = prefiller.ask(&head, &part, &target).await;
            result.map(drop).inspect_err(|_| {
                if let Some(failed) = failed {
                    failed();
                }
            })
        };
        // A task that outlives the request polls it.
        prefill.in_current_span().boxed()
    }
}

/// Completes when the client has left, or some time after its response was complete.
async fn over(answered: &mut oneshot::Receiver<()>) {
    if answered.await.is_ok() {
        tokio::time::sleep(PREFILL_DRAIN_TIMEOUT).await;
    }
}

/// The client of a prefill that runs in the background. If this is dropped before [`Client::answered`], the client has left.
struct Client(Option<oneshot::Sender<()>>);

// === impl Client ===

impl Client {
    fn answered(&mut self) {
        if let Some(client) = self.0.take() {
            // The prefill may have ended already.
            let _ = client.send(());
        }
    }
}

/// A response body that reports its end to the prefill.
struct WatchedBody {
    body: ProxyBody,
    client: Client,
}

// === impl WatchedBody ===

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        // hyper does not poll a body of known length for its end.
        if frame.is_none() || (matches!(frame, Some(Ok(_))) && self.body.is_end_stream()) {
            self.client.answered();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
