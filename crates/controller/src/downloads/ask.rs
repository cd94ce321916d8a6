//! Asking a pod how far its download is.

use std::{error::Error, sync::LazyLock, time::Duration};

use longboat_fetch::Progress;
use reqwest::Client;

/// How long an answer may take. It is a page of numbers from the same cluster.
const ANSWER: Duration = Duration::from_secs(2);
/// Bytes of an answer that are read.
const LONGEST: usize = 4 << 10;

/// It sends no credentials, follows no redirect and uses no proxy.
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

/// How far it is, or why that is not known. Whatever a pod answers, only numbers of it are told.
pub(super) async fn progress(url: &str) -> Result<Progress, String> {
    let client = CLIENT.as_ref().map_err(Clone::clone)?;
    let mut response = client.get(url).send().await.map_err(|error| cause(&error))?;
    let code = response.status().as_u16();
    if code != 200 {
        return Err(format!("it answers {code}"));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| cause(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST {
            break;
        }
    }
    Progress::parse(&body).ok_or_else(|| "its answer is none".to_owned())
}

/// The innermost cause: the others repeat the address.
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
