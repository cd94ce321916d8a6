//! An exchange with a processor of this process. It has the order and the ends of a stream, without gRPC and without a copy of
//! the bodies.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::{
    error::ClientError,
    message::{Event, Incoming, Reply},
    server::{Exchange, Outbox, Processor},
};

/// gRPC's codes, which remote processors answer with in the same cases.
const OK: u8 = 0;
const UNAVAILABLE: i32 = 14;

/// What both halves of an exchange share. They are used by one task, so the lock is never contended.
pub(crate) struct LocalStream {
    name: Arc<str>,
    state: Mutex<State>,
}

struct State {
    /// `None` after a panic: what the exchange has left behind is not used any more.
    exchange: Option<Box<dyn Exchange>>,
    out: Outbox,
    /// Whether the exchange knows how the stream ended.
    ended: bool,
    /// Whether the end of the response has been handled.
    complete: bool,
    /// Notified when an event is answered while nobody polls.
    waker: Option<Waker>,
}

// === impl LocalStream ===

impl LocalStream {
    pub(crate) fn open(processor: &impl Processor, name: Arc<str>) -> Result<Arc<Self>, ClientError> {
        if !processor.is_ready() {
            return Err(ClientError::Status {
                target: name.to_string(),
                code: UNAVAILABLE,
                message: "not ready yet".to_owned(),
            });
        }
        let opened = catch_unwind(AssertUnwindSafe(|| processor.open()));
        let Ok(exchange) = opened else { return Err(broken(&name, PANICKED)) };
        let state = State {
            exchange: Some(Box::new(exchange)),
            out: Outbox::default(),
            ended: false,
            complete: false,
            waker: None,
        };
        Ok(Arc::new(Self { name, state: Mutex::new(state) }))
    }

    /// Lets the exchange handle an event. Like a remote stream, this fails after the end of the stream.
    pub(crate) fn send(&self, incoming: Incoming) -> Result<(), ClientError> {
        let mut state = self.state.lock();
        if state.out.is_finished() {
            return Err(broken(&self.name, "the stream has ended"));
        }
        state.complete |= matches!(
            &incoming.event,
            Event::ResponseHeaders { end_of_stream: true, .. }
                | Event::ResponseBody { end_of_stream: true, .. }
                | Event::ResponseTrailers(_)
        );
        let handled = state.guarded(|exchange, out| exchange.handle(incoming, out));
        // Also after a panic, which the receiver reports.
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        handled.ok_or_else(|| broken(&self.name, PANICKED))
    }

    /// Returns the next reply, or `None` after the last one.
    pub(crate) fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Result<Option<Reply>, ClientError>> {
        let mut state = self.state.lock();
        let waits = state.exchange.as_ref().is_some_and(|exchange| exchange.waits());
        if waits && state.out.is_empty() && !state.out.is_finished() {
            // A panic leaves no exchange, which is reported below.
            let _ = state.guarded(|exchange, out| exchange.poll(context, out));
        }
        if state.exchange.is_none() {
            return Poll::Ready(Err(broken(&self.name, PANICKED)));
        }
        if let Some(reply) = state.out.pop() {
            return Poll::Ready(Ok(Some(reply)));
        }
        if state.out.is_finished() {
            state.end();
            return Poll::Ready(Ok(None));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl State {
    /// Runs code of the processor. After a panic, the exchange is dropped, as a server would drop it with its connection.
    fn guarded(&mut self, run: impl FnOnce(&mut dyn Exchange, &mut Outbox)) -> Option<()> {
        let Self { exchange, out, .. } = self;
        let exchange = exchange.as_deref_mut()?;
        if catch_unwind(AssertUnwindSafe(|| run(exchange, out))).is_ok() {
            return Some(());
        }
        self.discard();
        None
    }

    fn discard(&mut self) {
        let exchange = self.exchange.take();
        // What the exchange holds is released in its `Drop`, which may panic again.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(exchange)));
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            let _ = self.guarded(|exchange, _| exchange.ended(OK));
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.complete {
            self.end();
        }
        self.discard();
    }
}

const PANICKED: &str = "a panic ended it; the log has the panic's message";

fn broken(name: &Arc<str>, cause: &'static str) -> ClientError {
    ClientError::Broken { target: name.to_string(), source: cause.into() }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt as _;

    use super::*;
    use crate::{Action, Exchange as ClientExchange, HeaderChanges, Headers};

    /// A processor that returns bodies, refuses `no`, and panics at `panic`.
    #[derive(Clone, Default)]
    struct Echo {
        unready: bool,
        open: Arc<()>,
    }

    impl Processor for Echo {
        type Exchange = Self;

        fn open(&self) -> Self {
            self.clone()
        }

        fn is_ready(&self) -> bool {
            !self.unready
        }
    }

    impl Exchange for Echo {
        fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
            match incoming.event {
                Event::RequestHeaders { .. } => out.push(Action::RequestHeaders(HeaderChanges::default())),
                Event::RequestBody { body, .. } if &body[..] == b"panic" => panic!("as asked"),
                Event::RequestBody { body, .. } if &body[..] == b"no" => out.finish(),
                Event::RequestBody { body, end_of_stream } => {
                    out.push(Action::RequestBody { body, end_of_stream });
                }
                _ => {}
            }
        }
    }

    fn head() -> Event {
        Event::RequestHeaders { headers: Headers::new(), end_of_stream: false }
    }

    fn body(text: &'static str) -> Event {
        Event::RequestBody { body: Bytes::from_static(text.as_bytes()), end_of_stream: true }
    }

    #[tokio::test]
    async fn bodies_come_back_without_a_copy_and_nothing_comes_before_it_is_due() {
        let echo = Echo::default();
        let mut exchange = ClientExchange::in_process(&echo, "pool").unwrap();
        assert!(exchange.receive().now_or_never().is_none());
        exchange.send(head()).await.unwrap();
        let text = "a body";
        exchange.send(body(text)).await.unwrap();
        assert!(matches!(exchange.receive().await.unwrap().unwrap().action, Action::RequestHeaders(_)));
        let Action::RequestBody { body, .. } = exchange.receive().await.unwrap().unwrap().action else {
            panic!("no body")
        };
        assert_eq!(body.as_ptr(), text.as_ptr());
        assert!(exchange.receive().now_or_never().is_none());
        drop(exchange);
        assert_eq!(Arc::strong_count(&echo.open), 1, "the exchange is still there");
    }

    #[tokio::test]
    async fn a_reply_wakes_who_waits_for_it() {
        let (mut sender, mut receiver) =
            ClientExchange::in_process(&Echo::default(), "pool").unwrap().split();
        let waiting = tokio::spawn(async move { receiver.receive().await.unwrap().is_some() });
        tokio::task::yield_now().await;
        sender.send(head()).await.unwrap();
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_panic_ends_the_stream_and_nothing_else() {
        let echo = Echo::default();
        let mut exchange = ClientExchange::in_process(&echo, "pool").unwrap();
        assert!(matches!(exchange.send(body("panic")).await, Err(ClientError::Broken { .. })));
        assert_eq!(Arc::strong_count(&echo.open), 1, "what it holds is released");
        assert!(matches!(exchange.receive().await, Err(ClientError::Broken { .. })));
        assert!(exchange.send(head()).await.is_err());
        let mut other = ClientExchange::in_process(&echo, "pool").unwrap();
        other.send(head()).await.unwrap();
        assert!(other.receive().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_finished_stream_takes_nothing_and_one_that_is_not_ready_does_not_open() {
        let mut exchange = ClientExchange::in_process(&Echo::default(), "pool").unwrap();
        exchange.send(body("no")).await.unwrap();
        assert!(exchange.send(head()).await.is_err());
        assert_eq!(exchange.receive().await.unwrap(), None);
        let unready = Echo { unready: true, ..Echo::default() };
        let refused = ClientExchange::in_process(&unready, "pool").unwrap_err();
        assert!(matches!(refused, ClientError::Status { code: UNAVAILABLE, .. }), "{refused:?}");
    }
}
