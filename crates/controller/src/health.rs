//! `/healthz` and `/readyz`.

use std::{convert::Infallible, fmt, hash::Hash, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{context::Context, error::Error, queue::Queue, readiness::Readiness};

/// Probes at once; kubelet sends one at a time.
const CONNECTIONS: usize = 64;
/// How long a probe may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// A reconcile that takes longer hangs: a request that nobody answers fails after 70 seconds, and the first
/// failure ends it.
const LONGEST_PASS: Duration = Duration::from_mins(30);

/// Where to listen, as Go's flags say it: `:8081`, `127.0.0.1:8081`, or `0` for nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// At `HOST:PORT`; an empty host is every address.
    At(String),
}

/// A flag that names no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, :PORT, or 0 for nowhere")]
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
    /// Listens, if anywhere.
    pub(crate) async fn bind(&self, what: &'static str) -> Result<Option<TcpListener>, Error> {
        let Self::At(address) = self else { return Ok(None) };
        let bound = match address.strip_prefix(':') {
            Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
                // A machine without IPv6.
                Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
                bound => bound,
            },
            None => TcpListener::bind(address).await,
        };
        bound.map(Some).map_err(|source| Error::Listen { what, address: address.clone(), source })
    }
}

/// Answers probes until `shutdown`, after which it says that it is not ready until `end`.
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
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "A connection of a probe ended.");
            }
        }
    };
    longboat_accept::until(&end, listener, CONNECTIONS, connection).await.shutdown().await;
}

/// Names a reconcile that has been running for so long that it will not end, if there is one.
///
/// A reconcile ends when a request fails, and a request fails when the API server is away: while it is, reconciles fail and are tried
/// again, and nothing is stuck.
fn stuck<K: Clone + Eq + Hash + fmt::Display>(queue: &Queue<K>) -> Option<String> {
    let (key, running) = queue.longest()?;
    if running < LONGEST_PASS {
        return None;
    }
    tracing::error!(object = %key, minutes = running.as_secs() / 60, "A reconcile does not end.");
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
        "/healthz" => match stuck(&context.services).or_else(|| stuck(&context.configs)) {
            None => (StatusCode::OK, "ok".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        },
        "/readyz" if ending => (StatusCode::SERVICE_UNAVAILABLE, "[-]shutting down\n".to_owned()),
        "/readyz" => match readiness.report() {
            (true, _) if request.uri().query().is_none() => (StatusCode::OK, "ok".to_owned()),
            (true, report) => (StatusCode::OK, report),
            (false, report) => (StatusCode::SERVICE_UNAVAILABLE, report),
        },
        _ => (StatusCode::NOT_FOUND, "there are /healthz and /readyz\n".to_owned()),
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
        queue::Ended,
    };

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_does_not_end_is_told_and_one_that_waits_is_not() {
        let queue = Queue::new(Metrics::new().queue(Worker::Services));
        queue.add("ns/llm");
        tokio::time::advance(LONGEST_PASS).await;
        assert_eq!(stuck(&queue), None, "nobody works on it, a follower for instance");
        let key = queue.next().await;
        tokio::time::advance(LONGEST_PASS / 2).await;
        assert_eq!(stuck(&queue), None);
        tokio::time::advance(LONGEST_PASS / 2).await;
        assert!(stuck(&queue).is_some_and(|why| why.contains("30 minutes")));
        queue.done(key, Ended::Failed, 0.0);
        assert_eq!(stuck(&queue), None);
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
