//! Asks a pod for the progress of its download.

use std::{error::Error, sync::LazyLock, time::Duration};

use longboat_download::Progress;
use reqwest::Client;

/// The time limit for a response, which is a small page from the same cluster.
const ANSWER: Duration = Duration::from_secs(2);
/// The most bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 4 << 10;

/// The client sends no credentials, follows no redirects and uses no proxy.
static CLIENT: LazyLock<Result<Client, String>> = LazyLock::new(|| {
    let tls = rustls::ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty());
    Client::builder()
        .tls_backend_preconfigured(tls.with_no_client_auth())
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .timeout(ANSWER)
        .pool_max_idle_per_host(0)
        .user_agent(concat!("longboat-progress/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| cause(&error))
});

/// Returns the progress, or why it is unknown. Only numbers are taken from the pod's response.
pub(super) async fn progress(url: &str) -> Result<Progress, String> {
    let client = CLIENT.as_ref().map_err(Clone::clone)?;
    let mut response = client.get(url).send().await.map_err(|error| cause(&error))?;
    let code = response.status().as_u16();
    if code != 200 {
        return Err(format!("it answered with status {code}"));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| cause(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_RESPONSE_BYTES {
            break;
        }
    }
    Progress::parse(&body).ok_or_else(|| "its response has no progress".to_owned())
}

/// The innermost cause of an error. The outer ones repeat the address.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", ANSWER.as_secs());
    }
    let mut last: &dyn Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
