//! OCI registries, with the registry of the distribution project, with passwords and behind a proxy that injects faults.

use std::{
    io::Write as _,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longboat_fetch::FetchError;
use reqwest::{Client, Url};
use serde_json::{Value, json};

use crate::{
    Fault, Program, fault, fetch,
    servers::{
        Effect, Servers,
        contents::{recipe, sha256, tar},
        proxy,
    },
};

/// The user `user` with the password `pass`, as in the registry's password file.
const USER: &str = "user:$2a$04$5JAOMeumuOEBxcARyF/MqOJZp9wo74kjKuoi7.IO91etK.ZQRchyq\n";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry behind the proxy.
struct Registry {
    server: Program,
    servers: Arc<Servers>,
    /// The address of the proxy.
    front: String,
    folder: tempfile::TempDir,
}

// === impl Registry ===

impl Registry {
    async fn start() -> Option<Self> {
        longboat_tls::install_default_provider();
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        let arguments = |port: u16| {
            std::fs::write(folder.path().join("users"), USER).unwrap();
            let config = json!({
                "version": "0.1",
                "log": {"level": "error"},
                "storage": {"filesystem": {"rootdirectory": format!("{at}/data")}},
                "http": {"addr": format!("127.0.0.1:{port}")},
                "auth": {"htpasswd": {"realm": "models", "path": format!("{at}/users")}},
            });
            std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
            vec!["serve".to_owned(), format!("{at}/config.json")]
        };
        let server = Program::start("registry", "bin", arguments)?;
        let servers = Arc::new(Servers::default());
        let front = servers.serve("registry", proxy::to(server.address.clone())).await.to_string();
        Some(Self { server, servers, front, folder })
    }

    /// Stores a blob, and returns its descriptor for a manifest.
    async fn blob(&self, kind: &str, content: &[u8]) -> Value {
        let client = Client::new();
        let start = client.post(format!("http://{}/v2/team/m/blobs/uploads/", self.server.address));
        let started = start.basic_auth("user", Some("pass")).send().await.unwrap();
        let place = started.headers()["location"].to_str().unwrap().to_owned();
        let digest = format!("sha256:{}", sha256(content));
        let place = Url::parse_with_params(&place, [("digest", &digest)]).unwrap();
        let put = client.put(place).basic_auth("user", Some("pass"));
        let stored = put.body(content.to_vec()).send().await.unwrap();
        assert_eq!(stored.status().as_u16(), 201);
        json!({"mediaType": kind, "digest": digest, "size": content.len()})
    }

    /// Stores a manifest under a tag, and returns its digest.
    async fn manifest(&self, tag: &str, manifest: &Value) -> String {
        let text = manifest.to_string();
        let put = Client::new().put(format!("http://{}/v2/team/m/manifests/{tag}", self.server.address));
        let put = put.header("Content-Type", MANIFEST).basic_auth("user", Some("pass")).body(text.clone());
        let stored = put.send().await.unwrap();
        assert_eq!(stored.status().as_u16(), 201, "{}", stored.text().await.unwrap());
        format!("sha256:{}", sha256(text.as_bytes()))
    }

    /// Fetches with this user and password, or without any.
    async fn fetch(&self, reference: &str, to: &Path, login: Option<&str>) -> Result<(), FetchError> {
        let config = self.folder.path().join("docker.json");
        let mut auths = json!({"auths": {"elsewhere.example": {"auth": STANDARD.encode("other:one")}}});
        if let Some(login) = login {
            auths["auths"][&self.front] = json!({"auth": STANDARD.encode(login)});
        }
        std::fs::write(&config, auths.to_string()).unwrap();
        let config = config.display().to_string();
        let variables =
            [("KSERVE_OCI_DOCKER_CONFIG", config.as_str()), ("KSERVE_OCI_INSECURE_REGISTRY", "1")];
        fetch(&format!("oci://{}/team/m{reference}", self.front), to, &variables).await
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_arrives_through_every_fault_with_a_password() {
    let Some(registry) = Registry::start().await else { return };
    let weights = recipe("weights", 6 << 20);
    let base = tar(&[("etc/os-release", 0o644, b"x".to_vec()), ("models/gone", 0o644, b"old".to_vec())]);
    let model = tar(&[
        ("models/config.json", 0o644, b"{}\n".to_vec()),
        ("models/sub/w.bin", 0o600, weights.clone()),
        ("models/.wh.gone", 0o644, Vec::new()),
    ]);
    let config = registry.blob("application/vnd.oci.image.config.v1+json", b"{}").await;
    let layers = [
        registry.blob("application/vnd.oci.image.layer.v1.tar+gzip", &gzip(&base)).await,
        registry.blob("application/vnd.oci.image.layer.v1.tar", &model).await,
    ];
    let large = layers[1]["digest"].as_str().unwrap().replace("sha256:", "");
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
    let digest = registry.manifest("v1", &manifest).await;
    let faults = [
        fault("registry", "manifests", Effect { status: Some(503), ..Effect::default() }),
        fault("registry", &large, Effect { close_after: Some(3 << 20), ..Effect::default() }),
        fault("registry", &large, Effect { status: Some(500), ..Effect::default() }),
    ];
    registry.servers.faults.lock().extend(faults);
    let dir = tempfile::tempdir().unwrap();
    registry.fetch(":v1", dir.path(), Some("user:pass")).await.unwrap();
    assert!(std::fs::read(dir.path().join("sub/w.bin")).unwrap() == weights);
    assert_eq!(std::fs::read(dir.path().join("config.json")).unwrap(), b"{}\n");
    assert!(!dir.path().join("gone").exists() && !dir.path().join("etc").exists());
    assert!(registry.servers.faults.lock().iter().all(|fault| fault.times == 0), "every fault was met");
    let sent = registry.servers.sent.load(Relaxed);
    assert!(sent < (model.len() + (1 << 20)) as u64, "{sent} bytes for {}", model.len());

    // For a complete folder, only the manifest is requested, after a refusal that shows how to log in.
    registry.servers.log.lock().clear();
    registry.fetch(":v1", dir.path(), Some("user:pass")).await.unwrap();
    let asked: Vec<String> =
        registry.servers.log.lock().iter().map(|request| request.target.clone()).collect();
    assert!(asked.iter().all(|target| target == "/v2/team/m/manifests/v1"), "{asked:?}");

    let by_digest = tempfile::tempdir().unwrap();
    registry.fetch(&format!("@{digest}"), by_digest.path(), Some("user:pass")).await.unwrap();
    assert!(std::fs::read(by_digest.path().join("sub/w.bin")).unwrap() == weights);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_weights_of_a_model_pack_are_verified() {
    let Some(registry) = Registry::start().await else { return };
    let weights = recipe("raw", 3 << 20);
    let config = registry.blob("application/vnd.cncf.model.config.v1+json", b"{}").await;
    let mut layer = registry.blob("application/vnd.cncf.model.weight.v1.raw", &weights).await;
    layer["annotations"] = json!({"org.cncf.model.filepath": "sub/w.safetensors"});
    let kind = "application/vnd.cncf.model.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, "config": config, "layers": [layer],
    });
    registry.manifest("pack", &manifest).await;
    let corrupt = || fault("registry", "blobs", Effect { corrupt: Some(1 << 20), ..Effect::default() });
    registry.servers.faults.lock().push(corrupt());
    let dir = tempfile::tempdir().unwrap();
    registry.fetch(":pack", dir.path(), Some("user:pass")).await.unwrap();
    assert!(std::fs::read(dir.path().join("sub/w.safetensors")).unwrap() == weights);

    registry.servers.faults.lock().push(Fault { times: u64::MAX, ..corrupt() });
    let dir = tempfile::tempdir().unwrap();
    let error = registry.fetch(":pack", dir.path(), Some("user:pass")).await.unwrap_err().to_string();
    assert!(error.contains("w.safetensors") && error.contains("digest"), "{error}");
    assert!(!dir.path().join("sub/w.safetensors").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_is_told_at_once_and_no_other_password_is_shown() {
    let Some(registry) = Registry::start().await else { return };
    for login in [None, Some("user:wrong")] {
        registry.servers.log.lock().clear();
        let dir = tempfile::tempdir().unwrap();
        let error = registry.fetch(":v1", dir.path(), login).await.unwrap_err().to_string();
        assert!(error.contains("authentication failed") && !error.contains("wrong"), "{error}");
        let log = registry.servers.log.lock();
        assert!(log.len() <= 3, "{log:?}");
        let other = STANDARD.encode("other:one");
        assert!(log.iter().all(|request| request.header("authorization") != Some(&format!("Basic {other}"))));
    }
    let dir = tempfile::tempdir().unwrap();
    let error = registry.fetch(":none", dir.path(), Some("user:pass")).await.unwrap_err().to_string();
    assert!(error.contains("not found"), "{error}");
}
