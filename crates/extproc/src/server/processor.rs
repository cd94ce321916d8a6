//! What answers the streams of a server.

use std::task::Context;

use super::outbox::Outbox;
use crate::message::Incoming;

/// The method of the service.
pub(crate) const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/// The method of health checks.
pub(super) const HEALTH_PATH: &str = "/grpc.health.v1.Health/Check";

/// A processor of HTTP requests, which creates one [`Exchange`] per stream.
pub trait Processor: Send + Sync + 'static {
    /// The state of one HTTP request.
    type Exchange: Exchange;

    /// Called when a proxy opens a stream.
    fn open(&self) -> Self::Exchange;

    /// Whether the processor can answer streams yet. Until then, streams end with the gRPC status `UNAVAILABLE`. A proxy can
    /// then go on without the processor, which an error response to the client would prevent.
    fn is_ready(&self) -> bool {
        true
    }

    /// Called when a stream is refused because as many are open as [`Limits::streams`](super::Limits::streams) allows.
    fn too_many_streams(&self) {}

    /// Whether there is a processor at all. Without one, the port has health checks only.
    fn exists(&self) -> bool {
        true
    }
}

/// The state machine of one HTTP request. It runs where the stream is polled, so it must not block. It is dropped when the
/// stream ends for any reason, so it should release the request's resources in `Drop`.
pub trait Exchange: Send + Unpin + 'static {
    /// Handles an event, and adds the answers to `out`.
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox);

    /// Called when the stream ends with this gRPC status. Not called if the proxy cancels the stream.
    fn ended(&mut self, status: u8) {
        let _ = status;
    }

    /// Whether the exchange waits for something other than the proxy, and so needs to be polled.
    fn waits(&self) -> bool {
        false
    }

    /// Makes progress that does not depend on the proxy, for example on a place in a queue. The server may call this at any
    /// time. It must return at once, and register the waker if it still waits.
    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let _ = (context, out);
    }
}
