//! Both engines at the same time; they find one another, and only the decoder's answer is for the client.

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

use super::{Flow, Head, Route, prefill::Failure};
use crate::{
    body::{BodyError, ProxyBody},
    connectors::{Failed, Part},
    metrics::Outcome,
    target::Target,
};

/// How long a prefill may go on when the decoder has answered without it.
const LINGER: Duration = Duration::from_mins(1);

// === impl Flow ===

impl Flow<'_> {
    pub(super) async fn at_once(
        &self,
        head: &Head,
        original: &Bytes,
        (prefill, decode): (Part, Part),
        failed: Option<Failed>,
        route: &Route<'_>,
        target: &Target,
    ) -> Response<ProxyBody> {
        let mut prefill = self.beside(head, prefill, failed, target);
        let mut is_prefilled = false;
        let answer = {
            let mut decode = std::pin::pin!(self.decode(head, decode, route.engine, None));
            loop {
                tokio::select! {
                    // The decoder waits for the prefiller, which therefore goes first.
                    biased;
                    ended = &mut prefill, if !is_prefilled => {
                        is_prefilled = true;
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
            // The decoder waited for a cache that does not come: it is asked again, for all of the request.
            self.metrics.count(Outcome::FellBack);
            return self.decode_alone(head, original, route.engine).await;
        };
        self.metrics.count(Outcome::Disaggregated);
        if is_prefilled {
            return answer;
        }
        let (client, mut answered) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                _ = prefill => {}
                () = over(&mut answered) => {}
            }
        });
        answer.map(|body| Watched { body, client: Client(Some(client)) }.boxed_unsync())
    }

    /// A prefill whose answer nobody needs.
    fn beside(
        &self,
        head: &Head,
        part: Part,
        failed: Option<Failed>,
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
        prefill.boxed()
    }
}

/// Ends when the client left, or a while after its answer was complete.
async fn over(answered: &mut oneshot::Receiver<()>) {
    if answered.await.is_ok() {
        tokio::time::sleep(LINGER).await;
    }
}

/// The client of a prefill that runs beside: dropped before [`Client::answered`], it has left.
struct Client(Option<oneshot::Sender<()>>);

// === impl Client ===

impl Client {
    fn answered(&mut self) {
        if let Some(client) = self.0.take() {
            // The prefill may have ended before.
            let _ = client.send(());
        }
    }
}

/// An answer that tells the prefill beside it when it is complete.
struct Watched {
    body: ProxyBody,
    client: Client,
}

// === impl Watched ===

impl Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        // A body whose length is known is not asked for its end.
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
