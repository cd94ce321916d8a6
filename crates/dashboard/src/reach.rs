//! Access to ports of pods: directly if pods are processes of this machine, otherwise through the API server with the rights
//! of the kubeconfig.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, client::Body};
use longboat_api::decisions::TOKEN_HEADER;
use longboat_controller::reader;
use serde_json::Value;

use crate::tokens::Tokens;

/// The largest response to read, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// How long a server may take to accept a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of requests to a pod.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach pods.
#[derive(Debug, Clone)]
pub enum Reach {
    /// Directly: pods are processes of this machine.
    Direct(reqwest::Client),
    /// Through `pods/proxy` of the API server.
    Proxied(Arc<Tokens>),
}

/// A port of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The number.
    pub number: i32,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// Starts a client for servers of this machine. It ignores the proxy settings of the environment, and it does not verify certificates,
/// because nobody issues certificates for addresses that change with each start. `resolved` is a host and its address.
pub fn local_client(resolved: Option<(String, SocketAddr)>) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .danger_accept_invalid_certs(true)
        .connect_timeout(CONNECT_TIMEOUT);
    match resolved {
        Some((host, address)) => builder.resolve(&host, address),
        None => builder,
    }
}

// === impl Reach ===

impl Reach {
    /// Creates the access to pods of a local cluster.
    pub fn direct() -> reqwest::Result<Self> {
        let client = local_client(None).redirect(reqwest::redirect::Policy::none()).build()?;
        Ok(Self::Direct(client))
    }

    /// Creates the access to pods of a cluster.
    pub fn proxied() -> Self {
        Self::Proxied(Arc::default())
    }

    /// Returns status and text of a pod's response to `GET path`.
    ///
    /// # Errors
    ///
    /// If the pod does not answer, not in time, or with too much data. The error is a sentence.
    pub async fn get(
        &self,
        client: &Client,
        pod: &Pod,
        port: &Port,
        path: &str,
    ) -> Result<(StatusCode, String), String> {
        let answered = async {
            match self {
                Self::Direct(http) => direct(http, pod, port, path).await,
                Self::Proxied(_) => proxied(client, pod, port, path, HeaderMap::new()).await,
            }
        };
        in_time(answered).await
    }

    /// Like [`Self::get`], for a picker, which may restrict access to its pages.
    ///
    /// # Errors
    ///
    /// As [`Self::get`], and if there is no token for this.
    pub(crate) async fn get_from_picker(
        &self,
        client: &Client,
        pod: &Pod,
        port: &Port,
        path: &str,
    ) -> Result<(StatusCode, String), String> {
        // Without a token first: a picker may ask for none (`--metrics-endpoint-auth=false`), and creating one needs a right.
        let answer = self.get(client, pod, port, path).await?;
        let (Self::Proxied(tokens), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) = (self, answer.0)
        else {
            return Ok(answer);
        };
        let answered = async {
            let token = tokens.of(client, pod).await?;
            let mut token = HeaderValue::try_from(token).map_err(|error| error.to_string())?;
            token.set_sensitive(true);
            let headers = HeaderMap::from_iter([(HeaderName::from_static(TOKEN_HEADER), token)]);
            proxied(client, pod, port, path, headers).await
        };
        in_time(answered).await
    }
}

async fn in_time<T>(answered: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = || format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
    tokio::time::timeout(REQUEST_TIMEOUT, answered).await.map_err(|_| late())?
}

async fn direct(
    http: &reqwest::Client,
    pod: &Pod,
    port: &Port,
    path: &str,
) -> Result<(StatusCode, String), String> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref());
    let address = address.ok_or("the pod has no address yet")?;
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let scheme = if port.tls { "https" } else { "http" };
    let url = format!("{scheme}://{host}:{}{path}", port.number);
    let response = http.get(url).send().await.map_err(|error| longboat_tls::innermost(&error))?;
    let status = response.status();
    let body = Limited::new(reqwest::Body::from(response), MAX_RESPONSE_BYTES);
    Ok((status, text(body).await?))
}

async fn proxied(
    client: &Client,
    pod: &Pod,
    port: &Port,
    path: &str,
    headers: HeaderMap,
) -> Result<(StatusCode, String), String> {
    let metadata = &pod.metadata;
    let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else {
        return Err("the pod has no name".into());
    };
    let scheme = if port.tls { "https:" } else { "" };
    let url = format!("/api/v1/namespaces/{namespace}/pods/{scheme}{name}:{}/proxy{path}", port.number);
    let mut request = http::Request::get(url).body(Body::empty()).map_err(|error| error.to_string())?;
    request.headers_mut().extend(headers);
    let response = client.send(request).await.map_err(|error| reader::sentence(&error))?;
    let status = response.status();
    let text = text(Limited::new(response.into_body(), MAX_RESPONSE_BYTES)).await?;
    match refusal(status, &text) {
        Some(sentence) => Err(sentence),
        None => Ok((status, text)),
    }
}

/// Returns the API server's message if it did not forward the request to the pod.
fn refusal(status: StatusCode, text: &str) -> Option<String> {
    if status.is_success() {
        return None;
    }
    let said: Value = serde_json::from_str(text).ok()?;
    let message = said["message"].as_str().filter(|_| said["kind"] == "Status")?;
    Some(format!("the API server answered {}: {message}", status.as_u16()))
}

async fn text<B>(body: B) -> Result<String, String>
where
    B: http_body::Body<Error: std::fmt::Display>,
{
    let whole = body.collect().await.map_err(|error| format!("cannot read the response: {error}"))?;
    Ok(String::from_utf8_lossy(&whole.to_bytes()).into_owned())
}

/// Returns the port that a container of a pod declares: the port with this name, or its first port.
pub(crate) fn declared(pod: &Pod, container: &str, port: Option<&str>) -> Option<Port> {
    let spec = pod.spec.as_ref()?;
    let container = spec.containers.iter().find(|found| found.name == container)?;
    let found = container
        .ports
        .iter()
        .flatten()
        .find(|found| port.is_none_or(|port| found.name.as_deref() == Some(port)))?;
    let probes = [&container.readiness_probe, &container.liveness_probe, &container.startup_probe];
    let tls = probes
        .into_iter()
        .flatten()
        .filter_map(|probe| probe.http_get.as_ref())
        .any(|get| get.scheme.as_deref() == Some("HTTPS"));
    // Probes say how the serving port speaks. A port that is asked for by name is one of metrics, which is plain.
    Some(Port { number: found.container_port, tls: tls && port.is_none() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_api_server_are_told_from_answers_of_the_pod() {
        let status =
            r#"{"kind": "Status", "apiVersion": "v1", "message": "pods \"a\" is forbidden", "code": 403}"#;
        let said = |status, text| refusal(StatusCode::from_u16(status).unwrap(), text);
        assert_eq!(
            said(403, status).as_deref(),
            Some("the API server answered 403: pods \"a\" is forbidden")
        );
        for (code, text) in [(200, status), (403, "Forbidden"), (401, "{}"), (404, r#"{"message": "x"}"#)] {
            assert_eq!(said(code, text), None, "{code} {text}");
        }
    }
}
