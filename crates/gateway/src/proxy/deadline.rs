//! Time limits of an exchange.

use std::time::Duration;

use futures::future::{Either, FutureExt};
use http::{Response, StatusCode};
use tokio::time::Instant;

use super::{answer::refuse, body::ProxyBody};

/// How long a back end may say nothing, where the route has no timeout. The answer to a request without `stream` comes as a
/// whole, and a model may think about it for a long time.
pub(super) const BACK_END_IDLE_TIMEOUT: Duration = Duration::from_hours(1);

/// Waits for a result until the deadline, if there is one. An `async fn` would have room for the future twice.
pub(super) fn within<T>(
    deadline: Option<Instant>,
    result: impl Future<Output = T>,
) -> impl Future<Output = Option<T>> {
    match deadline {
        Some(deadline) => Either::Left(tokio::time::timeout_at(deadline, result).map(Result::ok)),
        None => Either::Right(result.map(Some)),
    }
}

/// The answer when time is over.
pub(super) fn expired() -> Response<ProxyBody> {
    refuse(StatusCode::GATEWAY_TIMEOUT, "the request timeout of the route, or of the gateway, expired")
}
