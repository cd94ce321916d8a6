//! Serving over a socket, with or without TLS.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioTimer;
use longboat_accept::{Budget, FramingStream};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{client::serve, hosts::Hosts};
use crate::{
    accounts,
    answer::{self, Answer},
    request::{User, accept::Accept},
    server::ApiServer,
    state::State,
    status::ApiError,
    tokens::OWN_AUDIENCE,
};

/// How long a client may take to complete a TLS handshake, for its first request, and to send the head of each.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open requests may continue after the shutdown starts.
const GRACE_TIMEOUT: Duration = Duration::from_secs(5);
/// The most open connections: far more than the clients of one machine open, and far fewer than its file descriptors.
const MAX_CONNECTIONS: usize = 4096;
/// The most bytes of long heads that have not arrived whole: more than a hundred of the longest.
const MAX_HEADS_BYTES: usize = 64 << 20;

// === impl ApiServer ===

impl ApiServer {
    /// Serves the listener until `shutdown`. Then lets open requests finish, but not watches.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        shutdown: CancellationToken,
    ) {
        let heads = Budget::new(MAX_HEADS_BYTES);
        let accepted = |stream: TcpStream, peer| {
            let (state, heads) = (Arc::clone(&self.state), Arc::clone(&heads));
            let local = stream.local_addr().ok().map(|address| address.ip());
            let hosts = Hosts::new(local, &self.state.options.hosts);
            let (tls, ending) = (tls.clone(), shutdown.clone());
            async move {
                let connection = async {
                    let accepted = longboat_tls::accept(tls, stream, peer, HEAD_TIMEOUT, &ending);
                    if let Some(stream) = accepted.await {
                        connection(state, hosts, stream, &heads, &ending).await;
                    }
                };
                tokio::select! {
                    () = connection => {}
                    () = async { ending.cancelled().await; tokio::time::sleep(GRACE_TIMEOUT).await } => {}
                }
            }
        };
        let mut connections = longboat_accept::until(&shutdown, listener, MAX_CONNECTIONS, accepted).await;
        // watches would never end: half a second is enough for all other requests
        longboat_accept::drain(&mut connections, Duration::from_millis(500)).await;
        connections.shutdown().await;
        self.state.sessions.closing.cancel();
        self.state.sessions.tasks.close();
        self.state.sessions.tasks.wait().await;
    }
}

async fn connection<S>(
    state: Arc<State>,
    hosts: Hosts,
    stream: S,
    heads: &Arc<Budget>,
    shutdown: &CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = FramingStream::new(stream).with_head_budget(heads);
    let switched = stream.switched();
    let slow = CancellationToken::new();
    let answer = |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(slow.clone());
        let state = Arc::clone(&state);
        let switched = switched.clone();
        let verdict = hosts.check(&request);
        async move {
            let answer = match verdict {
                Ok(()) => authenticated(&state, request).await,
                Err(error) => refused(&error, &request),
            };
            if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                switched.switch();
            }
            answer
        }
    };
    let mut builder = longboat_accept::builder(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000).keep_alive_interval(HEAD_TIMEOUT);
    let served = longboat_accept::serve(stream, &builder, HEAD_TIMEOUT, shutdown, answer);
    slow.run_until_cancelled(served).await;
}

/// The answer to a request that is not for this server. The server closes the connection without reading on.
fn refused(error: &ApiError, request: &http::Request<Incoming>) -> Answer {
    let mut answer = answer::refusal(error, Accept::of(request.headers()).refusal());
    if request.version() < http::Version::HTTP_2 {
        answer.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    }
    answer
}

async fn authenticated(state: &Arc<State>, request: http::Request<Incoming>) -> Answer {
    match user_of(state, &request).and_then(|user| impersonated_user(user, request.headers())) {
        Ok(user) => serve(state, request, user).await,
        Err(error) => answer::refusal(&error, Accept::of(request.headers()).refusal()),
    }
}

/// Returns the user to whom the request's token belongs.
fn user_of(state: &State, request: &http::Request<Incoming>) -> Result<User, ApiError> {
    if state.options.token.is_none() {
        return Ok(User::administrator());
    }
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::trim);
    let open = matches!(request.uri().path(), "/healthz" | "/livez" | "/readyz" | "/version");
    let known = given.and_then(|token| accounts::authenticate(state, token, &[OWN_AUDIENCE]).ok());
    match known {
        Some(known) => Ok(known.user),
        None if open => Ok(User::named("system:anonymous", vec!["system:unauthenticated".to_owned()])),
        None => Err(ApiError::new(401, "Unauthorized", "Unauthorized")),
    }
}

/// Returns the user whom the administrator impersonates, as `kubectl --as` asks. Only the administrator may impersonate.
fn impersonated_user(user: User, headers: &HeaderMap) -> Result<User, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(user);
    }
    let name = text("impersonate-user");
    if name.is_empty() {
        return Err(ApiError::bad_request("impersonation needs the header Impersonate-User"));
    }
    if !user.is_master() {
        let message = format!(
            "users \"{name}\" is forbidden: User \"{}\" cannot impersonate resource \"users\" in API group \"\" at the \
             cluster scope",
            user.name
        );
        return Err(ApiError::new(403, "Forbidden", message));
    }
    let groups = headers.get_all("impersonate-group").iter().filter_map(|group| group.to_str().ok());
    Ok(User::named(name, groups.map(str::to_owned).collect()))
}
