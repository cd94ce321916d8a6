//! Servers that help the picker: a tokenizer, a predictor of latencies. Requests wait for what they say, but not long.
//!
//! A companion that does not answer must not slow every request down by its whole patience: after some failures in a row it is
//! left alone for a while, and requests go on without it.

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

/// Failures in a row after which a companion is left alone.
pub(crate) const FAILURES: u32 = 3;
/// For how long.
const PAUSE: Duration = Duration::from_secs(2);

/// Asks companions over HTTP, and over TLS where they are trusted as the environment says.
pub(crate) type CompanionClient = Client<HttpsConnector<HttpConnector<Names>>, Full<Bytes>>;

/// A client in a pod of this namespace.
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

/// The address without a slash at its end, if it can be asked over HTTP.
pub(crate) fn address(url: &str) -> Result<String, String> {
    let uri = url.parse::<http::Uri>().map_err(|error| error.to_string())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err("expected http://HOST:PORT or https://HOST:PORT".to_owned());
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// How a companion did lately.
#[derive(Debug)]
pub(crate) struct Health {
    /// What the log says when it is left alone.
    warning: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// It is left alone until then.
    rests_until: Option<Instant>,
}

impl Health {
    pub(crate) fn new(warning: &'static str) -> Arc<Self> {
        Arc::new(Self { warning, state: Mutex::default() })
    }

    /// Whether it may be asked now. While it rests, one question at a time finds out whether it is well again.
    pub(crate) fn may_ask(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        match state.rests_until {
            Some(until) if until > now => false,
            Some(_) => {
                state.rests_until = Some(now + PAUSE);
                true
            }
            None => true,
        }
    }

    /// Whether it is left alone now.
    pub(crate) fn rests(&self) -> bool {
        self.state.lock().rests_until.is_some_and(|until| until > Instant::now())
    }

    /// A question that should be answered within this time.
    pub(crate) fn ask(self: &Arc<Self>, patience: Duration) -> Trial {
        Trial { health: Arc::clone(self), until: Instant::now() + patience, over: false }
    }

    fn failed(&self) {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            if state.failures == FAILURES {
                tracing::warn!("{}", self.warning);
            }
            state.rests_until = Some(Instant::now() + PAUSE);
        }
    }

    #[cfg(test)]
    pub(crate) fn failures(&self) -> u32 {
        self.state.lock().failures
    }

    /// The rest is over.
    #[cfg(test)]
    pub(crate) fn rested(&self) {
        self.state.lock().rests_until = Some(Instant::now());
    }
}

/// One question, which counts against the companion where it is not answered in time.
#[derive(Debug)]
pub(crate) struct Trial {
    health: Arc<Health>,
    until: Instant,
    over: bool,
}

impl Trial {
    /// It was answered, whatever the answer says.
    pub(crate) fn answered(mut self) {
        self.over = true;
        *self.health.state.lock() = State::default();
    }

    /// It was not.
    pub(crate) fn failed(mut self) {
        self.over = true;
        self.health.failed();
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Whoever left early says nothing about the companion.
        if !self.over && Instant::now() >= self.until {
            self.health.failed();
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered with status {0}")]
    Status(u16),
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
}

/// The body of a successful answer of at most `limit` bytes. `hold` is asked before each piece of it is kept.
pub(crate) async fn read<E: From<AnswerError>>(
    asked: ResponseFuture,
    limit: usize,
    mut hold: impl FnMut(usize) -> Result<(), E>,
) -> Result<BytesMut, E> {
    let unreachable = |error: &dyn std::error::Error| E::from(AnswerError::Unreachable(chain(error)));
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

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
