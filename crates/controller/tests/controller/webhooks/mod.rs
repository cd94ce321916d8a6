//! The webhook server in a process: over HTTPS, called by an API server that reads the webhook configurations.

mod answers;
mod authority;
mod connections;
mod metrics;

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::{
    api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use longboat_controller::{
    Listen, MetricsSettings, Process, ProcessArgs,
    webhook::{Clock, Limits, Settings, WebhookTarget, configurations},
};
use longboat_testkit::TestCluster;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running controller, with the ports of its process.
struct Replica {
    webhooks: SocketAddr,
    probes: SocketAddr,
    metrics: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

// === impl Replica ===

impl Replica {
    async fn start(world: &TestCluster) -> Self {
        Self::with(world, Settings::default(), None).await
    }

    async fn with(world: &TestCluster, settings: Settings, clock: Option<Clock>) -> Self {
        Self::by(world.client(), settings, clock).await
    }

    /// Starts a replica that uses this client for the API server.
    async fn by(client: kube::Client, settings: Settings, clock: Option<Clock>) -> Self {
        longboat_tls::install_default_provider();
        let args = ProcessArgs {
            kubeconfig: None,
            controller: longboat_controller::Args::default(),
            election: longboat_controller::Election::default(),
            webhook: Settings { webhook_host: Some([127, 0, 0, 1].into()), webhook_port: 0, ..settings },
            health: Listen::At("127.0.0.1:0".to_owned()),
            metrics: MetricsSettings { address: Listen::At("127.0.0.1:0".to_owned()), secure: false },
            logs: longboat_telemetry::zap::Zap::default(),
            traces: longboat_telemetry::traces::Otlp::default(),
            ignored_flags: longboat_controller::IgnoredFlags::default(),
        };
        let mut process = Process::bind(args).await.unwrap();
        if let Some(clock) = clock {
            process = process.with_clock(clock);
        }
        let (webhooks, probes) = (process.webhook_address(), process.health_address().unwrap());
        let metrics = process.metrics_address().unwrap();
        let stop = CancellationToken::new();
        let ends = stop.clone();
        let task = tokio::spawn(async move { process.run(client, ends).await.unwrap() });
        Self { webhooks, probes, metrics, stop, task }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.webhooks)
    }

    /// The status code and text of a probe.
    async fn probe(&self, path: &str) -> (u16, String) {
        let answer = reqwest::get(format!("http://{}{path}", self.probes)).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The metrics page.
    async fn metrics(&self) -> String {
        let answer = reqwest::get(format!("http://{}/metrics", self.metrics)).await.unwrap();
        answer.error_for_status().unwrap().text().await.unwrap()
    }

    async fn ready(&self, world: &TestCluster) {
        let seen = parking_lot::Mutex::new(String::new());
        let ready = world
            .try_eventually(async || {
                let (status, text) = self.probe("/readyz").await;
                *seen.lock() = text;
                status == 200
            })
            .await;
        assert!(ready.is_some(), "never ready: {}", seen.lock());
    }

    /// Starts a replica to which an API server sends reviews.
    async fn called(world: &TestCluster) -> Self {
        let replica = Self::start(world).await;
        install(world, &replica).await;
        replica.ready(world).await;
        replica
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Creates a world that calls no webhook yet.
async fn world() -> TestCluster {
    let world = TestCluster::empty().await;
    world.install_platform().await;
    world.namespace("ns").await;
    world
}

/// Makes the API server call a replica, like a user who applies manifests.
async fn install(world: &TestCluster, replica: &Replica) {
    let base = format!("https://{}", replica.webhooks);
    let all = configurations(&WebhookTarget::Url { base });
    world.apply(serde_json::to_value(all.mutating).unwrap()).await;
    for one in all.validating {
        world.apply(serde_json::to_value(one).unwrap()).await;
    }
}

/// Makes the API server use a replica for the conversion of a CRD's objects.
async fn convert_by(world: &TestCluster, replica: &Replica, crd: &str) {
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": replica.url("/convert")}, "conversionReviewVersions": ["v1", "v1beta1"]},
    });
    let api: Api<CustomResourceDefinition> = Api::all(world.client());
    let patch = json!({"spec": {"conversion": conversion}});
    api.patch_metadata(crd, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// The `clientConfig` for the conversion of a CRD's objects.
async fn stanza(world: &TestCluster, crd: &str) -> Value {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut crd: Value = world.client().request(request).await.unwrap();
    crd["spec"]["conversion"]["webhook"]["clientConfig"].take()
}

/// Waits for the CA bundle in the configuration of the defaulting webhook for services.
async fn trusted(world: &TestCluster) -> String {
    world.eventually("a CA bundle", async || bundle(world).await).await
}

async fn bundle(world: &TestCluster) -> Option<String> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client());
    let webhooks = api.get_opt(CONFIGURATION).await.unwrap()?.webhooks.unwrap();
    let mut bundles = webhooks.into_iter().map(|webhook| webhook.client_config.ca_bundle);
    let first = bundles.next().unwrap()?;
    assert!(bundles.all(|other| other.as_ref() == Some(&first)), "one webhook differs");
    Some(String::from_utf8(first.0).unwrap())
}

const CONFIGURATION: &str = "llminferenceservice.serving.kserve.io";

fn secrets(world: &TestCluster) -> Api<Secret> {
    Api::namespaced(world.client(), "kserve")
}

/// Creates a client that trusts only this bundle.
fn client(bundle: &str) -> Client {
    let tls = longboat_tls::client_config(bundle, &[b"h2", b"http/1.1"]).unwrap();
    Client::builder().tls_backend_preconfigured((*tls).clone()).no_proxy().build().unwrap()
}

/// A review for the creation of one of our services.
fn review(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7", "operation": "CREATE", "object": object,
            "resource": {"group": "serving.kserve.io", "version": "v1alpha2", "resource": "llminferenceservices"},
        },
    })
}

const MUTATE: &str = "/mutate-serving-kserve-io-v1alpha2-llminferenceservice";
const VALIDATE: &str = "/validate-serving-kserve-io-v1alpha2-llminferenceservice";

fn short() -> Limits {
    Limits { patience: Duration::from_millis(300), ..Limits::default() }
}
