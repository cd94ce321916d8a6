//! A world with a controller.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use longboat_admission::Facts;
use longboat_api::{
    conditions::Condition,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::{PresetNames, presets};
use longboat_controller::Args;
use longboat_key::Namespace;
use longboat_testkit::{Faults, OwnKinds, TestCluster, faulty};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than any reconcile in these tests, so the world is at rest after it.
pub(crate) const QUIET: Duration = Duration::from_millis(1500);

/// The admission of the world, which lets presets be deleted.
pub(crate) fn admission() -> Arc<OwnKinds> {
    OwnKinds::new(Facts { prevent_preset_deletion: false, ..Facts::default() })
}

/// A controller that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) faults: Faults,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(world: &TestCluster) -> Self {
        Self::with(world, Faults::default())
    }

    pub(crate) fn with(world: &TestCluster, faults: Faults) -> Self {
        let client = faulty(&world.server, &faults);
        Self { faults, ..Self::with_client(Args::default(), client) }
    }

    /// Starts a controller with another client, which has no faults.
    pub(crate) fn with_client(args: Args, client: Client) -> Self {
        let stop = CancellationToken::new();
        let ends = stop.clone();
        let task = tokio::spawn(async move {
            longboat_controller::run(args, client, ends).await.unwrap();
        });
        Self { faults: Faults::default(), stop, task }
    }

    /// Stops it gracefully.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Kills it, like `kill -9`.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Creates a world with presets and a namespace `ns`.
pub(crate) async fn world() -> TestCluster {
    let world = TestCluster::new(admission()).await;
    install_presets(&world).await;
    world.namespace("ns").await;
    world
}

/// Creates a world, starts a controller, and then creates an object.
pub(crate) async fn started(object: Value) -> (TestCluster, Running) {
    let world = world().await;
    let running = Running::start(&world);
    world.apply(object).await;
    (world, running)
}

pub(crate) async fn install_presets(world: &TestCluster) {
    for preset in presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap() {
        world.apply(serde_json::to_value(preset).unwrap()).await;
    }
}

/// Returns a service for a model on the hub, with additional fields in its spec.
#[expect(clippy::needless_pass_by_value, reason = "callers hand in literals")]
pub(crate) fn service(name: &str, more: Value) -> Value {
    let mut spec = json!({"model": {"uri": "hf://facebook/opt-125m"}, "replicas": 1});
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().cloned().unwrap_or_default());
    // Null removes a field.
    fields.retain(|_, value| !value.is_null());
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
    })
}

pub(crate) fn full() -> Value {
    json!({"router": {"route": {}, "gateway": {}, "scheduler": {}}})
}

pub(crate) fn services(client: Client) -> Api<LLMInferenceService> {
    Api::namespaced(client, "ns")
}

pub(crate) fn configs(client: Client, namespace: &str) -> Api<LLMInferenceServiceConfig> {
    Api::namespaced(client, namespace)
}

pub(crate) fn deployments(client: Client) -> Api<Deployment> {
    Api::namespaced(client, "ns")
}

/// Waits until a condition of a service satisfies `wanted`, and returns it.
pub(crate) async fn condition(
    world: &TestCluster,
    name: &str,
    type_: &str,
    wanted: impl Fn(&Condition) -> bool,
) -> Condition {
    let api = services(world.client());
    let seen = parking_lot::Mutex::new(None);
    let found = world
        .try_eventually(async || {
            let status = api.get_opt(name).await.unwrap()?.status?;
            let found = status.conditions.iter().find(|c| c.type_ == type_ && wanted(c)).cloned();
            *seen.lock() = Some(status.conditions);
            found
        })
        .await;
    found.unwrap_or_else(|| panic!("waited in vain for {type_} of {name}: {:#?}", seen.lock()))
}
