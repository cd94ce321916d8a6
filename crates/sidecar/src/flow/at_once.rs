//! Both engines at the same time; they find one another, and only the decoder's answer is for the client.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::{sync::oneshot, task::JoinHandle};

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
        let (client, mut outcome) = self.beside(head, prefill, failed, target);
        let mut decode = std::pin::pin!(self.decode(head, decode, route.engine, None));
        let mut may_fall_back = self.settings.fall_back;
        loop {
            tokio::select! {
                answer = &mut decode => {
                    self.metrics.count(Outcome::Disaggregated);
                    return answer.map(|body| Watched { body, client }.boxed_unsync());
                }
                ended = &mut outcome, if may_fall_back => {
                    may_fall_back = false;
                    if matches!(ended, Ok(Err(failure)) if !failure.is_request_error) {
                        break;
                    }
                }
            }
        }
        // The decoder waits for a cache that does not come: it is asked again, for all of the request.
        self.metrics.count(Outcome::FellBack);
        self.decode_alone(head, original, route.engine).await
    }

    /// Starts a prefill whose answer nobody needs. It ends when the client leaves before its answer is complete.
    fn beside(
        &self,
        head: &Head,
        part: Part,
        failed: Option<Failed>,
        target: &Target,
    ) -> (Client, JoinHandle<Result<(), Box<Failure>>>) {
        let (prefiller, head, target) = (self.prefiller(), head.clone(), target.clone());
        let (client, mut answered) = oneshot::channel();
        let running = tokio::spawn(async move {
            let result = tokio::select! {
                result = prefiller.ask(&head, &part, &target) => result,
                () = over(&mut answered) => return Ok(()),
            };
            result.map(drop).inspect_err(|_| {
                if let Some(failed) = failed {
                    failed();
                }
            })
        });
        (Client(Some(client)), running)
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
