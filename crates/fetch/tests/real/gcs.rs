//! Google Cloud Storage, with fake-gcs-server behind a proxy that injects faults.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use reqwest::{Client, Url};
use serde_json::json;

use crate::{
    Program, fault, fetch,
    servers::{Effect, Servers, contents::recipe, proxy},
};

/// A bucket `models`, behind the proxy.
struct Store {
    server: Program,
    servers: Arc<Servers>,
    /// The address of the proxy.
    front: String,
}

// === impl Store ===

impl Store {
    async fn start() -> Option<Self> {
        longboat_tls::install_default_provider();
        let arguments = |port: u16| {
            let port = port.to_string();
            ["-scheme", "http", "-host", "127.0.0.1", "-port", &port, "-backend", "memory"]
                .map(str::to_owned)
                .to_vec()
        };
        let server = Program::start("fake-gcs-server", "bin", arguments)?;
        let servers = Arc::new(Servers::default());
        let front = servers.serve("gcs", proxy::to(server.address.clone())).await.to_string();
        let bucket = Client::new()
            .post(format!("http://{}/storage/v1/b?project=p", server.address))
            .json(&json!({"name": "models"}))
            .send();
        assert!(bucket.await.unwrap().status().is_success());
        Some(Self { server, servers, front })
    }

    async fn put(&self, name: &str, content: Vec<u8>) {
        let url = format!("http://{}/upload/storage/v1/b/models/o", self.server.address);
        let url = Url::parse_with_params(&url, [("uploadType", "media"), ("name", name)]).unwrap();
        let request = Client::new().post(url).body(content);
        assert!(request.send().await.unwrap().status().is_success());
    }

    async fn fetch(&self, uri: &str, to: &std::path::Path) -> Result<(), longboat_fetch::FetchError> {
        // The metadata server is not asked for credentials.
        let variables = [("STORAGE_EMULATOR_HOST", self.front.as_str()), ("NO_GCE_CHECK", "true")];
        fetch(uri, to, &variables).await
    }

    /// Requests since the last call.
    fn requests(&self) -> Vec<String> {
        let log = std::mem::take(&mut *self.servers.log.lock());
        log.into_iter().map(|request| format!("{} {}", request.method, request.target)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_arrive_through_every_fault_and_are_not_sent_twice() {
    let Some(store) = Store::start().await else { return };
    let large = recipe("large", 40 << 20);
    store.put("llama/w ü+.bin", large.clone()).await;
    store.put("llama/sub/config.json", b"{}\n".to_vec()).await;
    store.put("llama/empty", Vec::new()).await;
    store.put("llama-2/other", b"other".to_vec()).await;
    let faults = [
        fault("gcs", "prefix=", Effect { status: Some(503), ..Effect::default() }),
        fault("gcs", "w%20", Effect { reset_after: Some(3 << 20), ..Effect::default() }),
        fault("gcs", "w%20", Effect { status: Some(429), ..Effect::default() }),
        fault("gcs", "config.json", Effect { drop: true, ..Effect::default() }),
    ];
    store.servers.faults.lock().extend(faults);
    let dir = tempfile::tempdir().unwrap();
    store.fetch("gs://models/llama", dir.path()).await.unwrap();
    assert!(std::fs::read(dir.path().join("w ü+.bin")).unwrap() == large);
    assert_eq!(std::fs::read(dir.path().join("sub/config.json")).unwrap(), b"{}\n");
    assert_eq!(std::fs::read(dir.path().join("empty")).unwrap(), b"");
    assert!(!dir.path().join("other").exists());
    assert!(store.servers.faults.lock().iter().all(|fault| fault.times == 0), "every fault was met");
    let sent = store.servers.sent.load(Relaxed);
    assert!(sent < (large.len() + (4 << 20)) as u64, "{sent} bytes for {}", large.len());

    // For a complete folder, only the listing is requested.
    store.requests();
    store.fetch("gs://models/llama", dir.path()).await.unwrap();
    let requests = store.requests();
    assert!(matches!(requests.as_slice(), [list] if list.contains("prefix=llama%2F")), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_is_noticed_and_a_missing_object_leaves_nothing() {
    let Some(store) = Store::start().await else { return };
    let content = recipe("w", 2 << 20);
    store.put("m/w.bin", content.clone()).await;
    let corrupt = || fault("gcs", "w.bin", Effect { corrupt: Some(1 << 20), ..Effect::default() });
    store.servers.faults.lock().push(corrupt());
    let dir = tempfile::tempdir().unwrap();
    store.fetch("gs://models/m/w.bin", dir.path()).await.unwrap();
    assert!(std::fs::read(dir.path().join("w.bin")).unwrap() == content);

    let always = crate::Fault { times: u64::MAX, ..corrupt() };
    store.servers.faults.lock().push(always);
    let dir = tempfile::tempdir().unwrap();
    let error = store.fetch("gs://models/m", dir.path()).await.unwrap_err().to_string();
    assert!(error.contains("w.bin") && error.contains("digest"), "{error}");
    assert!(!dir.path().join("w.bin").exists());

    for uri in ["gs://models/none", "gs://none/m"] {
        let dir = tempfile::tempdir().unwrap();
        let error = store.fetch(uri, dir.path()).await.unwrap_err().to_string();
        assert!(error.contains("not found") || error.contains("No model found"), "{error}");
        let left = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(left.into_iter().all(|name| name == ".longboat"));
    }
}
