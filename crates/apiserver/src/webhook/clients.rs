//! HTTPS calls to webhooks: one pooled client per trusted CA and server.

use std::{
    collections::HashMap,
    error::Error as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use parking_lot::Mutex;
use reqwest::{Client, StatusCode, Url};
use serde_json::Value;

use super::{
    hooks::{Hook, Hooks, Kind},
    trust,
};
use crate::store::{Key, Store};

/// The most HTTP clients that are kept. Each new CA bundle of a configuration makes one.
const MAX_CLIENTS: usize = 64;
/// The largest answer that is read, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// HTTP clients, and the webhooks of the current configuration objects.
#[derive(Debug, Default)]
pub(crate) struct WebhookClients {
    clients: Mutex<HashMap<Target, Client>>,
    hooks: Mutex<Hooks>,
}

/// The key of an HTTP client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Target {
    /// CA bundle in base64, as in the configuration; empty for none.
    ca: String,
    /// For a Service: the name in its certificate, and its address.
    service: Option<(String, SocketAddr)>,
}

// === impl WebhookClients ===

impl WebhookClients {
    /// Returns the webhooks of one kind in the order of their calls.
    pub(super) fn hooks(&self, store: &Store, kind: Kind) -> Arc<Vec<Hook>> {
        self.hooks.lock().current(store, kind)
    }

    /// Posts `body` to the server of a `clientConfig`. Returns the answer, or an error in the words of kube-apiserver.
    pub(super) async fn call(
        &self,
        store: &Store,
        config: &Value,
        timeout: Duration,
        body: &Value,
    ) -> Result<Value, String> {
        let seconds = timeout.as_secs();
        let (mut url, service) = destination(store, config, seconds)?;
        url.set_query(Some(&format!("timeout={seconds}s")));
        let client =
            self.client(Target { ca: config["caBundle"].as_str().unwrap_or_default().to_owned(), service })?;
        let failed = |error: &reqwest::Error| format!("Post \"{url}\": {}", cause(error, &url));
        let mut answer = client
            .post(url.clone())
            .timeout(timeout)
            .json(body)
            .send()
            .await
            .map_err(|error| failed(&error))?;
        let status = answer.status();
        // Read in pieces, because the length that the server announces may be missing or wrong.
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| failed(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_RESPONSE_BYTES {
                return Err(format!("Post \"{url}\": the answer is larger than {MAX_RESPONSE_BYTES} bytes"));
            }
        }
        if !status.is_success() {
            return Err(refusal(status, &String::from_utf8_lossy(&bytes)));
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
    }

    fn client(&self, target: Target) -> Result<Client, String> {
        if let Some(client) = self.clients.lock().get(&target) {
            return Ok(client.clone());
        }
        let pem = BASE64_STANDARD
            .decode(target.ca.as_bytes())
            .map_err(|error| format!("unable to load root certificates: {error}"))?;
        let tls = trust::client_config(&pem)?;
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            // A webhook in the cluster is never behind a proxy of this process's environment, and a redirect could lead
            // elsewhere.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10));
        if let Some((name, address)) = &target.service {
            builder = builder.resolve(name, *address);
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        let mut clients = self.clients.lock();
        if clients.len() >= MAX_CLIENTS {
            // Nothing says which of them are still used, and a client is quickly made.
            clients.clear();
        }
        clients.insert(target, client.clone());
        Ok(client)
    }
}

/// Returns the target of a `clientConfig`: its URL, and for a Service its name and address.
fn destination(
    store: &Store,
    config: &Value,
    seconds: u64,
) -> Result<(Url, Option<(String, SocketAddr)>), String> {
    if let Some(url) = config["url"].as_str() {
        return Ok((Url::parse(url).map_err(|error| error.to_string())?, None));
    }
    let service = &config["service"];
    let name = service["name"].as_str().unwrap_or_default();
    let namespace = service["namespace"].as_str().unwrap_or_default();
    let port = service["port"].as_u64().and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
    let path = service["path"].as_str().unwrap_or_default().trim_start_matches('/');
    let failed = |why: &str| {
        format!("Post \"https://{name}.{namespace}.svc:{port}/{path}?timeout={seconds}s\": {why}")
    };
    let found = store
        .get("/services", &Key::new(namespace, name))
        .ok_or_else(|| failed(&format!("service \"{name}\" not found")))?;
    let address: IpAddr = found.value["spec"]["clusterIP"]
        .as_str()
        .and_then(|ip| ip.parse().ok())
        .ok_or_else(|| failed(&format!("no endpoints available for service \"{name}\"")))?;
    let host = format!("{name}.{namespace}.svc");
    let url = Url::parse(&format!("https://{host}:{port}/{path}")).map_err(|error| error.to_string())?;
    Ok((url, Some((host, SocketAddr::new(address, port)))))
}

/// Rewrites a transport error in Go's words, where they are known.
fn cause(error: &reqwest::Error, url: &Url) -> String {
    if error.is_timeout() {
        return "context deadline exceeded".to_owned();
    }
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::ConnectionRefused
        {
            let host = url.host_str().unwrap_or_default();
            let port = url.port_or_known_default().unwrap_or(443);
            return format!("dial tcp {host}:{port}: connect: connection refused");
        }
        source = inner.source();
    }
    longboat_tls::innermost(error)
}

/// Rewrites an HTTP error in the words of client-go.
fn refusal(status: StatusCode, body: &str) -> String {
    match status.as_u16() {
        404 => "the server could not find the requested resource".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => format!("forbidden: {}", body.trim()),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        500 | 502 => {
            format!("an error on the server ({:?}) has prevented the request from succeeding", body.trim())
        }
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        code => format!("the server responded with the status code {code} but did not return more details"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_of_former_servers_do_not_pile_up() {
        let clients = WebhookClients::default();
        let ca = BASE64_STANDARD.encode(longboat_tls::CertificateAuthority::new("ca").unwrap().pem());
        for port in 1..=2 * u16::try_from(MAX_CLIENTS).unwrap() {
            let service = Some(("a.b.svc".to_owned(), SocketAddr::from(([127, 0, 0, 1], port))));
            clients.client(Target { ca: ca.clone(), service }).unwrap();
            assert!(clients.clients.lock().len() <= MAX_CLIENTS);
        }
    }
}
