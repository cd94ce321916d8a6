//! Asks a pod for a small page, such as the progress of its download.

use std::{sync::LazyLock, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use reqwest::{Client, ClientBuilder, Response};
use rustls::{ClientConfig, RootCertStore};

/// The time limit for a response, which is a small page from the same cluster.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

static CLIENT: LazyLock<Result<Client, String>> = LazyLock::new(|| {
    let client = client_builder(trusting_nobody())
        .timeout(ANSWER_TIMEOUT)
        .user_agent(concat!("longboat-progress/", env!("CARGO_PKG_VERSION")));
    client.build().map_err(|error| cause(&error))
});

/// A client that sends no credentials, follows no redirects, uses no proxy and keeps no connection.
pub(crate) fn client_builder(tls: ClientConfig) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .pool_max_idle_per_host(0)
}

/// For addresses without TLS.
pub(crate) fn trusting_nobody() -> ClientConfig {
    ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

/// Returns the URL of the page that an init container of a pod serves, if it serves one.
pub(crate) fn address(pod: &Pod, container: &str) -> Option<String> {
    let mut containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    let container = containers.find(|found| found.name == container)?;
    let port = container.ports.as_ref()?.first()?.container_port;
    let ip = pod.status.as_ref()?.pod_ip.as_deref()?;
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    Some(format!("http://{host}:{port}/"))
}

/// Returns the page, or why it is unknown. Of a page that is longer than `limit`, it returns one more byte.
pub(crate) async fn page(url: &str, limit: usize) -> Result<Vec<u8>, String> {
    let client = CLIENT.as_ref().map_err(Clone::clone)?;
    let response = client.get(url).send().await.map_err(|error| cause(&error))?;
    let code = response.status().as_u16();
    if code != 200 {
        return Err(format!("it answered with status {code}"));
    }
    read(response, limit + 1).await.map_err(|error| cause(&error))
}

/// Reads up to `most` bytes of a body.
pub(crate) async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        let room = most - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if body.len() == most {
            break;
        }
    }
    Ok(body)
}

/// The innermost cause of an error. The outer ones repeat the address.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", ANSWER_TIMEOUT.as_secs());
    }
    longboat_tls::innermost(error)
}
