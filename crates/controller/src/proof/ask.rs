//! Sends a proof request, and reads the metrics before and after it.

use std::{error::Error, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use longboat_plan::proof::{
    Answer, Counters, MAX_METRICS_BYTES, MAX_RESPONSE_BYTES, PodMetrics, Probe, ProbeError, ProbeObservation,
    Role, is_conclusive, max_model_len,
};
use reqwest::{Client, header};
use rustls::ClientConfig;
use tokio::time::timeout;

use crate::ask::{client_builder, read, trusting_nobody};

/// The time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for the response, which has one token.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for a page of a pod: its metrics, its models.
const METRICS_TIMEOUT: Duration = Duration::from_secs(3);
/// The most bytes of a list of models that are read.
const MAX_MODELS_BYTES: usize = 256 << 10;
/// The context that every engine has, in tokens: for engines that do not report theirs, and refuse a longer prompt.
const SHORT_CONTEXT: usize = 512;
/// The number of metrics pages that are read concurrently.
const MAX_CONCURRENT_PAGES: usize = 8;
/// How often the metrics are read until they are conclusive: engines update their counters at the end of a step.
const MAX_METRICS_READS: u32 = 3;
/// The time between two reads.
const METRICS_READ_INTERVAL: Duration = Duration::from_secs(1);

/// Sends the request, and reads the metrics that show what the engines did.
pub(super) async fn observe_probe(probe: &Probe) -> ProbeObservation {
    let pods = pod_client(probe);
    // Only the growth of the counters shows that the caches of this request were transferred.
    let before = if probe.disaggregated { metrics(&pods, probe).await } else { Vec::new() };
    let context = if probe.disaggregated { context(&pods, probe).await } else { None };
    let mut answer = ask(probe, context).await;
    if probe.disaggregated && answer.as_ref().is_ok_and(|answer| answer.code == 400) {
        answer = ask(probe, Some(SHORT_CONTEXT)).await;
    }
    let at = Timestamp::now().as_second();
    let is_fine = answer.as_ref().is_ok_and(|answer| answer.code == 200);
    let mut seen = ProbeObservation { answer, pods: Vec::new(), at };
    // The answer alone proves a single engine. Whether a KV cache was transferred shows only in the metrics.
    if is_fine && !probe.disaggregated {
        return seen;
    }
    for look in 1..=MAX_METRICS_READS {
        let after = metrics(&pods, probe).await;
        let mut before = before.iter().map(|page| page.as_ref().ok().copied());
        seen.pods =
            after.into_iter().map(|after| PodMetrics { before: before.next().flatten(), after }).collect();
        if !is_fine || look == MAX_METRICS_READS || is_conclusive(probe, &seen) {
            break;
        }
        tokio::time::sleep(METRICS_READ_INTERVAL).await;
    }
    seen
}

/// The context of the engine that answers, in tokens, if it tells.
async fn context(client: &Result<Client, String>, probe: &Probe) -> Option<usize> {
    let client = client.as_ref().ok()?;
    let engine = probe.pods.iter().find(|pod| pod.role == Role::Decode)?;
    let url = format!("{}/v1/models", engine.url);
    let list = timeout(METRICS_TIMEOUT, page(client, &url, MAX_MODELS_BYTES)).await.ok()?.ok()?;
    max_model_len(&list)
}

async fn ask(probe: &Probe, context: Option<usize>) -> Result<Answer, ProbeError> {
    let client = gateway_client(probe).await?;
    let mut request = client
        .post(&probe.url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(probe.body(rand::random(), context));
    if let Some((name, value)) = &probe.model_header {
        request = request.header(name, value);
    }
    let answered = timeout(ANSWER_TIMEOUT, async {
        let response = request.send().await.map_err(|error| unreached(&error))?;
        let code = response.status().as_u16();
        let body =
            read(response, MAX_RESPONSE_BYTES).await.map_err(|error| ProbeError::Broken(cause(&error)))?;
        Ok(Answer { code, body })
    });
    answered.await.unwrap_or(Err(ProbeError::Silence(ANSWER_TIMEOUT.as_secs())))
}

/// Classifies why there is no response.
fn unreached(error: &reqwest::Error) -> ProbeError {
    if let Some(refused) = error.source().and_then(tls) {
        return ProbeError::Certificate(refused.to_string());
    }
    if error.is_connect() || error.is_builder() {
        return ProbeError::Connection(cause(error));
    }
    ProbeError::Broken(cause(error))
}

/// Returns the TLS error that caused an error, if there is one. `source` skips the error that an I/O error wraps, and I/O
/// errors may wrap each other.
fn tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let within = |error: &'a std::io::Error| error.get_ref().and_then(|inner| tls(inner));
    error
        .downcast_ref()
        .or_else(|| error.downcast_ref().and_then(within))
        .or_else(|| error.source().and_then(tls))
}

/// The innermost cause: the others repeat the address.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
    }
    longboat_tls::innermost(error)
}

/// The counters of each pod, in the order of the pods, or why they could not be read.
async fn metrics(client: &Result<Client, String>, probe: &Probe) -> Vec<Result<Counters, String>> {
    let client = match client {
        Ok(client) => client,
        Err(why) => return probe.pods.iter().map(|_| Err(why.clone())).collect(),
    };
    let urls: Vec<String> = probe.pods.iter().map(|pod| format!("{}/metrics", pod.url)).collect();
    stream::iter(urls)
        .map(|url| {
            let client = client.clone();
            async move {
                let late = || Err(format!("no metrics within {} s", METRICS_TIMEOUT.as_secs()));
                let page = timeout(METRICS_TIMEOUT, page(&client, &url, MAX_METRICS_BYTES))
                    .await
                    .unwrap_or_else(|_| late())?;
                Ok(Counters::read(&page))
            }
        })
        .buffered(MAX_CONCURRENT_PAGES)
        .collect()
        .await
}

async fn page(client: &Client, url: &str, most: usize) -> Result<Vec<u8>, String> {
    let response = client.get(url).send().await.map_err(|error| cause(&error))?;
    let code = response.status().as_u16();
    if code != 200 {
        return Err(format!("{url} answered {code}"));
    }
    read(response, most).await.map_err(|error| cause(&error))
}

/// A client that trusts the certificates that the environment trusts, and those in the platform's settings. It sends no
/// credentials, follows no redirects and uses no proxy.
async fn gateway_client(probe: &Probe) -> Result<Client, ProbeError> {
    let tls = if probe.url.starts_with("https:") {
        let trusted = probe.trusted.clone();
        let config =
            tokio::task::spawn_blocking(move || longboat_tls::extended_client_config(&trusted)).await;
        config
            .map_err(|error| ProbeError::Trust(error.to_string()))?
            .map_err(|error| ProbeError::Trust(error.to_string()))?
    } else {
        Arc::new(trusting_nobody())
    };
    client(tls).map_err(ProbeError::Connection)
}

/// A client that trusts only the certificate of the service's pods.
fn pod_client(probe: &Probe) -> Result<Client, String> {
    let tls = match &probe.pod_certificate {
        Some(pem) => longboat_tls::client_config(pem, &[]).map_err(|error| error.to_string())?,
        None => Arc::new(trusting_nobody()),
    };
    client(tls)
}

fn client(tls: Arc<ClientConfig>) -> Result<Client, String> {
    let client = client_builder(Arc::unwrap_or_clone(tls))
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("longboat-proof/", env!("CARGO_PKG_VERSION")));
    client.build().map_err(|error| cause(&error))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use longboat_tls::LeafRequest;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    #[tokio::test]
    async fn a_certificate_that_is_not_trusted_is_another_fault_than_a_gateway_that_is_not_there() {
        longboat_tls::install_default_provider();
        let request = LeafRequest {
            common_name: "gateway".into(),
            ips: vec![Ipv4Addr::LOCALHOST.into()],
            days: 1,
            ..LeafRequest::default()
        };
        let pair = longboat_tls::self_signed(&request).unwrap();
        let acceptor = TlsAcceptor::from(longboat_tls::server_config(&pair, &[]).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        let client = client(longboat_tls::extended_client_config(&[]).unwrap()).unwrap();
        let error = client.get(&url).send().await.unwrap_err();
        let seen = unreached(&error);
        assert!(matches!(&seen, ProbeError::Certificate(why) if why.contains("certificate")), "{seen:?}");
        server.abort();
        let _ = server.await;
        let error = client.get(&url).send().await.unwrap_err();
        let seen = unreached(&error);
        assert!(matches!(seen, ProbeError::Connection(_)), "{seen:?}");
    }
}
