//! Servers that help the picker: a tokenizer and a latency predictor. Requests wait for their answers, but only briefly.
//!
//! A companion that does not answer must not delay every request by the full timeout. After some failures in a row, the picker
//! stops calling it for a while, and requests go on without it.

use std::{sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, ResponseFuture, connect::HttpConnector},
    rt::TokioExecutor,
};
use parking_lot::Mutex;
use tokio::time::Instant;

mod names;

use names::Names;

/// Failures in a row after which the picker pauses its calls to a companion.
pub(crate) const FAILURES: u32 = 3;
/// The length of this pause.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The HTTP client for companions. Over TLS, it trusts the certificates that the environment names.
pub(crate) type CompanionClient = Client<HttpsConnector<HttpConnector<Names>>, Full<Bytes>>;

/// Creates a client for a pod of this namespace.
pub(crate) fn client(namespace: &str) -> CompanionClient {
    let mut http = HttpConnector::new_with_resolver(Names { namespace: namespace.into() });
    http.enforce_http(false);
    http.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config((*longboat_tls::environment_client_config()).clone())
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Returns the address without a trailing slash. Returns an error if it is not an HTTP or HTTPS address.
pub(crate) fn address(url: &str) -> Result<String, String> {
    let uri = url.parse::<http::Uri>().map_err(|error| error.to_string())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err("expected http://HOST:PORT or https://HOST:PORT".to_owned());
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// The recent health of a companion.
#[derive(Debug)]
pub(crate) struct Health {
    /// The log message when a pause begins.
    warning: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// The end of the current pause.
    paused_until: Option<Instant>,
}

impl Health {
    pub(crate) fn new(warning: &'static str) -> Arc<Self> {
        Arc::new(Self { warning, state: Mutex::default() })
    }

    /// Whether the companion may be called now. After a pause, one call at a time tests whether the companion is healthy again.
    pub(crate) fn may_send(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        match state.paused_until {
            Some(until) if until > now => false,
            Some(_) => {
                state.paused_until = Some(now + RETRY_DELAY);
                true
            }
            None => true,
        }
    }

    /// Whether calls to the companion are paused now.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().paused_until.is_some_and(|until| until > Instant::now())
    }

    /// Starts a call that should be answered within this time.
    pub(crate) fn start_call(self: &Arc<Self>, patience: Duration) -> Call {
        Call { health: Arc::clone(self), until: Instant::now() + patience, over: false }
    }

    fn failed(&self) {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            if state.failures == FAILURES {
                tracing::warn!("{}", self.warning);
            }
            state.paused_until = Some(Instant::now() + RETRY_DELAY);
        }
    }

    #[cfg(test)]
    pub(crate) fn failures(&self) -> u32 {
        self.state.lock().failures
    }

    /// Ends the pause.
    #[cfg(test)]
    pub(crate) fn end_pause(&self) {
        self.state.lock().paused_until = Some(Instant::now());
    }
}

/// One call. It counts as a failure if no answer comes in time.
#[derive(Debug)]
pub(crate) struct Call {
    health: Arc<Health>,
    until: Instant,
    over: bool,
}

impl Call {
    /// Records that the companion answered, whatever the answer says.
    pub(crate) fn answered(mut self) {
        self.over = true;
        *self.health.state.lock() = State::default();
    }

    /// Records a failure.
    pub(crate) fn failed(mut self) {
        self.over = true;
        self.health.failed();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // A call that was dropped before its deadline says nothing about the companion.
        if !self.over && Instant::now() >= self.until {
            self.health.failed();
        }
    }
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("cannot reach it: {0}")]
    Unreachable(String),
    #[error("it answered with status {0}")]
    Status(u16),
    #[error("its response is longer than {0} bytes")]
    TooLong(usize),
}

/// Reads the body of a successful response of at most `limit` bytes. Calls `hold` before it keeps each piece.
pub(crate) async fn read<E: From<AnswerError>>(
    asked: ResponseFuture,
    limit: usize,
    mut hold: impl FnMut(usize) -> Result<(), E>,
) -> Result<BytesMut, E> {
    let unreachable = |error: &(dyn std::error::Error + 'static)| {
        E::from(AnswerError::Unreachable(longboat_tls::chain(error)))
    };
    let response = asked.await.map_err(|error| unreachable(&error))?;
    if !response.status().is_success() {
        return Err(AnswerError::Status(response.status().as_u16()).into());
    }
    let mut body = response.into_body();
    let mut answer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreachable(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if answer.len() + data.len() > limit {
            return Err(AnswerError::TooLong(limit).into());
        }
        hold(data.len())?;
        answer.extend_from_slice(data.chunk());
    }
    Ok(answer)
}
