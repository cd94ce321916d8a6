//! The HTTP client of all sources: timeouts, manual redirects, and structured failures.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Url;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    FetchError,
    failure::Failure,
    hosts::Hosts,
    redirect,
    retry::{Cause, RetryPolicy, pause},
};

/// The maximum number of redirects of a request.
const MAX_REDIRECTS: u32 = 30;
/// The most bytes that are kept of an error's body.
const MAX_ERROR_BODY: usize = 16 << 10;

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    inner: reqwest::Client,
    /// Longest wait for a response, and between two pieces of a body.
    read: Duration,
    retries: RetryPolicy,
    hosts: Arc<Hosts>,
}

/// The time limits of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For the connection.
    pub(crate) connect: Duration,
    /// For the response, and between two pieces of a body.
    pub(crate) read: Duration,
    /// For progress over several attempts.
    pub(crate) retries: RetryPolicy,
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedirectPolicy {
    /// All.
    All,
    /// Redirects to the same host.
    SameHost,
    /// None.
    None,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Headers that are sent only to the host and port of the address.
    pub(crate) secrets: HeaderMap,
    pub(crate) follow: RedirectPolicy,
    pub(crate) body: Option<Bytes>,
}

/// A response whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    response: reqwest::Response,
    read: Duration,
}

// === impl Request ===

impl Request {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        let mut headers = HeaderMap::new();
        // A compressed body would have another length and another digest than the file.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Self { method, url, headers, secrets: HeaderMap::new(), follow: RedirectPolicy::All, body: None }
    }

    pub(crate) fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Sends a form.
    pub(crate) fn form(url: Url, body: String) -> Self {
        let mut request = Self::new(Method::POST, url);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers.insert(header::CONTENT_TYPE, form);
        request.body = Some(body.into());
        request
    }

    /// Adds a secret header. A value that is not allowed in a header is refused without being shown.
    pub(crate) fn secret(&mut self, name: header::HeaderName, value: &str) -> Result<(), Failure> {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| Failure::last("a credential has characters that are not allowed in a header"))?;
        value.set_sensitive(true);
        self.secrets.insert(name, value);
        Ok(())
    }

    pub(crate) fn bearer(&mut self, token: &str) -> Result<(), Failure> {
        self.secret(header::AUTHORIZATION, &format!("Bearer {token}"))
    }
}

/// Creates a header value from a text that we build ourselves.
pub(crate) fn ascii(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// A client that neither follows redirects nor repeats requests itself.
pub(crate) fn client(
    tls: Arc<rustls::ClientConfig>,
    options: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, FetchError> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never());
    let built = options(builder).build();
    built.map_err(|error| FetchError::setting("the HTTP client", error.without_url().to_string()))
}

// === impl Client ===

impl Client {
    pub(crate) fn new(tls: Arc<rustls::ClientConfig>, limits: Limits) -> Result<Self, FetchError> {
        let inner = client(tls, |builder| {
            builder
                .connect_timeout(limits.connect)
                .user_agent(concat!("longboat/", env!("CARGO_PKG_VERSION")))
        })?;
        let hosts = Arc::new(Hosts::new(limits.retries.first_answer));
        Ok(Self { inner, read: limits.read, retries: limits.retries, hosts })
    }

    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        self.retries
    }

    /// Sends a request once and follows redirects. Returns a success, or a redirect that must not be followed. Any other status
    /// is a failure, which contains the beginning of the body.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, Failure> {
        let answer = self.ask(request).await?;
        if answer.status().is_success() || answer.status().is_redirection() {
            return Ok(answer);
        }
        Err(answer.into_failure().await)
    }

    /// Sends a request until it is answered, or until the limits of retries are reached.
    pub(crate) async fn send_with_retries(&self, request: &Request) -> Result<Response, Failure> {
        with_retries(self.retries, || self.send(request.clone())).await
    }

    /// Reads a small document.
    pub(crate) async fn document(&self, request: &Request, limit: usize) -> Result<Document, Failure> {
        with_retries(self.retries, || async {
            let answer = self.send(request.clone()).await?;
            let (headers, url) = (answer.headers().clone(), answer.url().clone());
            Ok(Document { headers, url, body: answer.body(limit).await? })
        })
        .await
    }

    async fn ask(&self, mut request: Request) -> Result<Response, Failure> {
        let first = request.url.clone();
        let same_host = |url: &Url| origin(url) == origin(&first);
        for _ in 0..=MAX_REDIRECTS {
            let host = origin(&request.url);
            let mut builder = self
                .inner
                .request(request.method.clone(), request.url.clone())
                .headers(request.headers.clone());
            if same_host(&request.url) {
                builder = builder.headers(request.secrets.clone());
            }
            if let Some(body) = &request.body {
                builder = builder.body(body.clone());
            }
            let response = timeout(self.hosts.wait(&host, self.read), builder.send())
                .await
                .map_err(|_| Failure { host: host.clone(), ..Failure::broken("no answer in time") })
                .and_then(|sent| sent.map_err(|error| Failure::of_transport(error, &host)))
                .map_err(|failure| self.hosts.failed(failure))?;
            self.hosts.answered(&host);
            let answer = Response { response, read: self.read };
            let Some(next) = answer.location()? else { return Ok(answer) };
            let follow = match request.follow {
                RedirectPolicy::All => true,
                RedirectPolicy::SameHost => same_host(&next),
                RedirectPolicy::None => false,
            };
            if !follow {
                return Ok(answer);
            }
            redirect::check(&first, &request.url, &next).map_err(Failure::last)?;
            // A 303 leads to another resource, which is to be read (RFC 9110, section 15.4.4). The others keep the method.
            if answer.status() == StatusCode::SEE_OTHER {
                request.method = Method::GET;
                request.body = None;
            }
            request.url = next;
        }
        Err(Failure::last(format!("more than {MAX_REDIRECTS} redirects")))
    }
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) headers: HeaderMap,
    pub(crate) url: Url,
    pub(crate) body: Vec<u8>,
}

/// Repeats attempts until one succeeds, or until the limits of retries are reached.
pub(crate) async fn with_retries<T, F: Future<Output = Result<T, Failure>>>(
    retries: RetryPolicy,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Failure> {
    let start = Instant::now();
    let mut count = 0;
    loop {
        let failure = match attempt().await {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        count += 1;
        let Some(wait) = pause(failure.cause, count, start.elapsed(), retries, rand::random()) else {
            return Err(failure);
        };
        tracing::warn!(
            host = failure.host,
            wait = ?wait,
            error = failure.why,
            "A request failed; will retry."
        );
        sleep(wait).await;
    }
}

/// Returns scheme, host and port of an address.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

// === impl Response ===

impl Response {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    pub(crate) fn url(&self) -> &Url {
        self.response.url()
    }

    /// Returns a header if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    /// The size in `Content-Length`. hyper's own size is 0 for responses to HEAD.
    pub(crate) fn length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }

    /// Returns the target of a redirect. Returns `None` if the response is not a redirect.
    pub(crate) fn location(&self) -> Result<Option<Url>, Failure> {
        if !matches!(self.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = self.header("location") else { return Ok(None) };
        let url = self.url().join(location).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut url = url.ok_or_else(|| {
            Failure::last("the server redirects to an address that is neither http:// nor https://")
        })?;
        // Credentials in a redirect come from the server, which could use them to log this machine in elsewhere.
        let _ = (url.set_username(""), url.set_password(None));
        Ok(Some(url))
    }

    /// Returns the next piece of the body. Returns `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let host = origin(self.url());
        match timeout(self.read, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                let failure = Failure::of_transport(error, &host);
                Err(Failure { cause: Cause::Connection, ..failure })
            }
            Err(_) => Err(Failure {
                host,
                ..Failure::broken(format!("the body stalled for {} s", self.read.as_secs_f64()))
            }),
        }
    }

    /// Returns the whole body. A longer body than `limit` is a failure.
    pub(crate) async fn body(mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let announced = self.length().and_then(|length| usize::try_from(length).ok());
        let mut body = Vec::with_capacity(announced.unwrap_or(0).min(limit));
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(Failure::last(format!("the answer is longer than {limit} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Converts this response to a failure.
    pub(crate) async fn into_failure(mut self) -> Failure {
        let status = self.status();
        let after = self.header("retry-after").and_then(retry_after);
        let headers = Box::new(self.headers().clone());
        let host = origin(self.url());
        let (mut body, time_limit) = (Vec::new(), self.read);
        let read = async {
            while body.len() < MAX_ERROR_BODY {
                let Ok(Some(chunk)) = self.chunk().await else { break };
                body.extend_from_slice(&chunk);
            }
        };
        // The part that has arrived by then is enough. Otherwise an error body that arrives slowly could take hours.
        let _ = timeout(time_limit, read).await;
        body.truncate(MAX_ERROR_BODY);
        Failure {
            status: Some(status.as_u16()),
            headers,
            host: host.clone(),
            body: String::from_utf8_lossy(&body).into_owned(),
            ..Failure::new(Cause::Status(status.as_u16(), after), format!("{host} answered {status}"))
        }
    }
}

/// Returns the pause that a `Retry-After` header asks for. The header has a number of seconds or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    let wait = date.as_second() - jiff::Timestamp::now().as_second();
    Some(Duration::from_secs(u64::try_from(wait).unwrap_or(0)))
}

/// Reads a `Content-Range` header. Returns the first byte, the byte after the last, and the total size if it is known.
pub fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, end) = (first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?);
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    (first < end && total.is_none_or(|total| end <= total)).then_some((first, end, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        assert_eq!(content_range("bytes 0-9/20"), Some((0, 10, Some(20))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, 10, None)));
        for wrong in ["", "bytes */20", "bytes 9-5/20", "bytes 0-20/20", "lines 0-1/2"] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("7"), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
    }
}
