//! HTTP probes and hooks. Like the kubelet, they do not verify certificates.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use longboat_types::KUBERNETES_MINOR;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::Url;

use super::port::port_number;

/// The most bytes of a response body to read. The body is only shown to people.
const MAX_BODY_BYTES: usize = 10 * 1024;

/// The most requests of one probe, as in Go's client: the first one and those that follow redirects.
const MAX_REQUESTS: usize = 10;

/// Probes once. Returns an error in the kubelet's words unless the response is 2xx or 3xx, and a warning if it is a redirect that
/// is not followed.
pub(crate) async fn get(
    action: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
    limit: Duration,
) -> Result<Option<String>, String> {
    let response = send(action, container, pod_ip, limit).await?;
    match response.status().as_u16() {
        200..300 => Ok(None),
        300..400 => {
            let body = String::from_utf8_lossy(response.body());
            Ok(Some(format!("Probe terminated redirects, Response body: {body}")))
        }
        status => Err(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// Runs the request of a hook. Like the kubelet (pkg/kubelet/lifecycle/handlers.go), it accepts every status.
pub(crate) async fn hook(
    action: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
    limit: Duration,
) -> Result<(), String> {
    send(action, container, pod_ip, limit).await.map(drop)
}

/// Sends the request, and follows redirects to the same host, as the kubelet does (RedirectChecker in pkg/probe/http/http.go). A
/// redirect elsewhere is the response: the probe is about this container.
async fn send(
    action: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
    limit: Duration,
) -> Result<Response<Vec<u8>>, String> {
    let port = port_number(&action.port, container)?;
    let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
    let https = action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let path = action.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let first = format!("{}://{host}:{port}{slash}{path}", if https { "https" } else { "http" });
    let mut url = first.clone();
    let follow = async {
        let mut response = request(action, &url, host, port, https, MAX_BODY_BYTES).await?;
        for _ in 1..MAX_REQUESTS {
            let Some(next) = redirect_target(&url, &response) else { return Ok(response) };
            let port = next.port_or_known_default().unwrap_or(port);
            let https = next.scheme() == "https";
            url = next.into();
            response = request(action, &url, host, port, https, MAX_BODY_BYTES).await?;
        }
        match redirect_target(&url, &response) {
            Some(_) => Err(format!("stopped after {MAX_REQUESTS} redirects")),
            None => Ok(response),
        }
    };
    match tokio::time::timeout(limit, follow).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(format!("Get {url:?}: {error}")),
        Err(_) => Err(format!(
            "Get {first:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )),
    }
}

/// Returns the target of a redirect on the same host.
fn redirect_target(url: &str, response: &Response<Vec<u8>>) -> Option<Url> {
    // Go's client does not follow other 3xx.
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    let url = Url::parse(url).ok()?;
    let target = url.join(location).ok()?;
    (target.host() == url.host() && matches!(target.scheme(), "http" | "https")).then_some(target)
}

/// Returns the body of a pod's page of metrics, at most the first `most` bytes.
pub(crate) async fn page(
    pod_ip: &str,
    port: u16,
    https: bool,
    limit: Duration,
    most: usize,
) -> Result<Vec<u8>, String> {
    let url = format!("{}://{pod_ip}:{port}/metrics", if https { "https" } else { "http" });
    match tokio::time::timeout(limit, request(&HTTPGetAction::default(), &url, pod_ip, port, https, most))
        .await
    {
        Ok(Ok(response)) if response.status() == StatusCode::OK => Ok(response.into_body()),
        Ok(Ok(response)) => Err(format!("{url} answered {}", response.status())),
        Ok(Err(error)) => Err(format!("{url}: {error}")),
        Err(_) => Err(format!("{url} did not answer within {}", longboat_quantity::duration::text(limit))),
    }
}

async fn request(
    action: &HTTPGetAction,
    url: &str,
    host: &str,
    port: u16,
    https: bool,
    most: usize,
) -> Result<Response<Vec<u8>>, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    let stream = TcpStream::connect((host, port)).await.map_err(|error| dial_error(host, port, &error))?;
    if https {
        let config = longboat_tls::insecure_client_config(&[b"http/1.1"]);
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let stream = tokio_rustls::TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| tls_error(&error))?;
        exchange(action, &uri, stream, most).await
    } else {
        exchange(action, &uri, stream, most).await
    }
}

/// Returns the error message of Go's net package, for which people search.
pub(super) fn dial_error(host: &str, port: u16, error: &std::io::Error) -> String {
    let cause = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {host}:{port}: {cause}")
}

/// Returns Go's message if the server does not speak TLS, as [`dial_error`] does.
fn tls_error(error: &std::io::Error) -> String {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Returns what is wrong with a response. A server with TLS answers plain HTTP with bytes that are no HTTP, or not at all.
fn response_error(error: &hyper::Error) -> String {
    if error.is_parse() || error.is_incomplete_message() {
        format!("malformed HTTP response: {error}; the server may expect HTTPS")
    } else {
        error.to_string()
    }
}

async fn exchange(
    action: &HTTPGetAction,
    uri: &Uri,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    most: usize,
) -> Result<Response<Vec<u8>>, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut request = Request::get(target);
    let mut host_given = false;
    let mut agent_given = false;
    for header in action.http_headers.iter().flatten() {
        host_given |= header.name.eq_ignore_ascii_case("host");
        agent_given |= header.name.eq_ignore_ascii_case("user-agent");
        request = request.header(&header.name, &header.value);
    }
    if host_given {
        // A probe may name any host. Servers on loopback addresses refuse foreign hosts, unless Longboat has sent the
        // request.
        if let Some(headers) = request.headers_mut() {
            longboat_accept::mark_forwarded(headers, http::Version::HTTP_11);
        }
    } else {
        request = request.header(header::HOST, uri.authority().map_or("", http::uri::Authority::as_str));
    }
    if !agent_given {
        request = request
            .header(header::USER_AGENT, format!("kube-probe/1.{KUBERNETES_MINOR}"))
            .header(header::ACCEPT, "*/*");
    }
    let request = request
        // As the kubelet, which probes over a new connection each time.
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| response_error(&error))?;
        let (head, mut body) = response.into_parts();
        let mut content = Vec::new();
        // Some servers log an error if a connection closes in the middle of a response. So read the response to its end if
        // it is short.
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.data_ref().map_or(&[][..], |data| data);
            content.extend_from_slice(&data[..data.len().min(most - content.len())]);
            if content.len() == most {
                break;
            }
        }
        Ok(Response::from_parts(head, content))
    };
    // The connection makes progress only while it is polled. It is dropped together with the response.
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    let mut open = true;
    loop {
        tokio::select! {
            done = &mut answer => return done,
            ended = &mut connection, if open => {
                open = false;
                if let Err(error) = ended {
                    tracing::trace!(%error, "A probe connection ended.");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_probe_for_a_host_of_its_own_passes_servers_that_refuse_foreign_hosts() {
        let action: HTTPGetAction = serde_json::from_value(json!({
            "path": "/health", "port": 8000, "httpHeaders": [{"name": "Host", "value": "chat.example"}],
        }))
        .unwrap();
        let (near, mut far) = tokio::io::duplex(4096);
        let server = tokio::spawn(async move {
            let mut head = vec![0; 4096];
            let read = far.read(&mut head).await.unwrap();
            far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8_lossy(&head[..read]).to_lowercase()
        });
        let uri = Uri::from_static("http://127.64.0.1:8000/health");
        assert_eq!(
            exchange(&action, &uri, near, 0).await.map(|response| response.status()),
            Ok(StatusCode::OK)
        );
        let head = server.await.unwrap();
        assert!(head.contains("host: chat.example\r\n") && head.contains("via: 1.1 longboat\r\n"), "{head}");
    }

    /// Answers each request with the next head.
    async fn server(heads: &'static [&'static str]) -> u16 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            for head in heads {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await.unwrap();
                let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 2\r\n\r\nno");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    #[tokio::test]
    async fn redirects_to_the_same_host_are_followed_and_others_are_a_warning() {
        let probe = async |heads| {
            let action = json!({"path": "/", "port": server(heads).await});
            let action: HTTPGetAction = serde_json::from_value(action).unwrap();
            get(&action, &Container::default(), "127.0.0.1", Duration::from_mins(1)).await
        };
        let warning = Ok(Some("Probe terminated redirects, Response body: no".to_owned()));
        assert_eq!(probe(&["302 Found\r\nlocation: /health", "200 OK"]).await, Ok(None));
        assert_eq!(
            probe(&["302 Found\r\nlocation: health?a=b", "503 Down"]).await,
            Err("HTTP probe failed with statuscode: 503".to_owned())
        );
        assert_eq!(probe(&["308 Moved\r\nlocation: http://elsewhere.example/"]).await, warning);
        assert_eq!(probe(&["301 Moved"]).await, warning);
        assert_eq!(probe(&["300 Choices\r\nlocation: /health"]).await, warning);
        let error = probe(&["302 Found\r\nlocation: /"; MAX_REQUESTS]).await.unwrap_err();
        assert!(error.ends_with("stopped after 10 redirects"), "{error}");
    }
}
