//! `/healthz` and `/readyz`.

use std::{convert::Infallible, fmt, hash::Hash, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{context::Context, error::Error, queue::Queue, readiness::Readiness};

/// The most concurrent probes; the kubelet sends one at a time.
const MAX_CONNECTIONS: usize = 64;
/// The time limit for a probe's request.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// A reconcile that takes longer than this is stuck: each request times out after 70 seconds, and the first failed request
/// ends the reconcile.
const MAX_RECONCILE_DURATION: Duration = Duration::from_mins(30);

/// The address to listen on, in the syntax of Go's flags: `:8081`, `127.0.0.1:8081`, or `0` to not listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Do not listen.
    Off,
    /// Listen on `HOST:PORT`. An empty host means every address.
    At(String),
}

/// A flag that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, :PORT, or 0 to turn it off")]
pub struct NoAddress;

// === impl Listen ===

impl FromStr for Listen {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let (_, port) = text.rsplit_once(':').ok_or(NoAddress)?;
        port.parse::<u16>().map_err(|_| NoAddress)?;
        Ok(Self::At(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At(address) => f.write_str(address),
        }
    }
}

impl Listen {
    /// Binds the address. Returns `None` for [`Listen::Off`].
    pub(crate) async fn bind(&self, what: &'static str) -> Result<Option<TcpListener>, Error> {
        let Self::At(address) = self else { return Ok(None) };
        let bound = match address.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()) {
            Some(port) => TcpListener::bind((longboat_accept::every_address().await, port)).await,
            None => TcpListener::bind(address).await,
        };
        bound.map(Some).map_err(|source| Error::Listen { what, address: address.clone(), source })
    }
}

/// Responds to probes until `end`. After `shutdown`, reports that the controller is not ready.
pub(crate) async fn serve(
    listener: TcpListener,
    readiness: Readiness,
    context: Arc<Context>,
    shutdown: CancellationToken,
    end: CancellationToken,
) {
    let connection = |stream, _| {
        let (readiness, context, shutdown) = (readiness.clone(), context.clone(), shutdown.clone());
        async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &readiness, &context, shutdown.is_cancelled());
                async move { Ok::<_, Infallible>(answer) }
            });
            longboat_accept::serve_http1(stream, PROBE_TIMEOUT, service).await;
        }
    };
    longboat_accept::until(&end, listener, MAX_CONNECTIONS, connection).await.shutdown().await;
}

/// Names a reconcile that is stuck, if there is one.
///
/// While the API server is unreachable, requests fail and reconciles are retried, so no reconcile is stuck.
fn stuck_reconcile<K: Clone + Eq + Hash + fmt::Display>(queue: &Queue<K>) -> Option<String> {
    let (key, running) = queue.longest()?;
    if running < MAX_RECONCILE_DURATION {
        return None;
    }
    tracing::error!(object = %key, minutes = running.as_secs() / 60, "A reconcile takes too long.");
    Some(format!("[-]reconciling: a reconcile has been running for {} minutes\n", running.as_secs() / 60))
}

fn answer(
    request: &Request<Incoming>,
    readiness: &Readiness,
    context: &Context,
    ending: bool,
) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/healthz" | "/readyz" if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, "expected GET\n".to_owned())
        }
        "/healthz" => {
            match stuck_reconcile(&context.services).or_else(|| stuck_reconcile(&context.configs)) {
                None => (StatusCode::OK, "ok".to_owned()),
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            }
        }
        "/readyz" if ending => (StatusCode::SERVICE_UNAVAILABLE, "[-]shutting down\n".to_owned()),
        "/readyz" => match readiness.report() {
            (true, _) if request.uri().query().is_none() => (StatusCode::OK, "ok".to_owned()),
            (true, report) => (StatusCode::OK, report),
            (false, report) => (StatusCode::SERVICE_UNAVAILABLE, report),
        },
        _ => (StatusCode::NOT_FOUND, "not found; use /healthz or /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        metrics::{Metrics, Worker},
        queue::ReconcileOutcome,
    };

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_does_not_end_is_told_and_one_that_waits_is_not() {
        let queue = Queue::new(Metrics::new().queue(Worker::Services));
        queue.add("ns/llm");
        tokio::time::advance(MAX_RECONCILE_DURATION).await;
        assert_eq!(stuck_reconcile(&queue), None, "nobody works on it, a follower for instance");
        let key = queue.next().await;
        tokio::time::advance(MAX_RECONCILE_DURATION / 2).await;
        assert_eq!(stuck_reconcile(&queue), None);
        tokio::time::advance(MAX_RECONCILE_DURATION / 2).await;
        assert!(stuck_reconcile(&queue).is_some_and(|why| why.contains("30 minutes")));
        queue.done(key, ReconcileOutcome::Failed, 0.0);
        assert_eq!(stuck_reconcile(&queue), None);
    }

    #[test]
    fn addresses_are_read_as_in_go() {
        assert_eq!("0".parse(), Ok(Listen::Off));
        assert_eq!(":8081".parse(), Ok(Listen::At(":8081".to_owned())));
        assert_eq!("[::1]:8081".parse(), Ok(Listen::At("[::1]:8081".to_owned())));
        assert_eq!("8081".parse::<Listen>(), Err(NoAddress));
        assert_eq!(":http".parse::<Listen>(), Err(NoAddress));
    }
}
