//! A world with a controller.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use longboat_admission::{self as admission, Denial, Facts, Request, Subject, Version};
use longboat_api::{
    conditions::Condition,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_apiserver::{
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
    status::ApiError,
};
use longboat_compose::{PresetNames, presets};
use longboat_controller::Args;
use longboat_key::Namespace;
use longboat_testkit::{Faults, TestCluster, faulty};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longer than any reconcile in these tests, so the world is at rest after it.
pub(crate) const QUIET: Duration = Duration::from_millis(1500);

pub(crate) struct Hook;

impl Admission for Hook {
    fn handles(&self, group: &str, resource: &str) -> bool {
        Subject::of(group, resource).is_some()
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            match admission::mutate(subject, &asked, &facts()) {
                Ok(mutation) => AdmissionAnswer { object: mutation.object, ..AdmissionAnswer::default() },
                Err(denial) => {
                    AdmissionAnswer { refused: Some(refusal(denial)), ..AdmissionAnswer::default() }
                }
            }
        }
        .boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            let answer = admission::validate(subject, &asked, &facts());
            AdmissionAnswer { refused: answer.denial.map(refusal), object: None, warnings: answer.warnings }
        }
        .boxed()
    }
}

fn facts() -> Facts {
    Facts { prevent_preset_deletion: false, ..Facts::default() }
}

fn asked(request: &AdmissionRequest) -> Option<(Subject, Request<'_>)> {
    if request.subresource.is_some() {
        return None;
    }
    let subject = Subject::of(&request.group, &request.resource)?;
    let version = Version::of(&request.version)?;
    let (object, old) = (request.object.as_ref(), request.old.as_ref());
    Some((subject, Request { version, operation: request.operation, object, old }))
}

fn refusal(denial: Denial) -> ApiError {
    let mut error = ApiError::new(denial.code, denial.reason, denial.message);
    error.details = denial.details.as_object().cloned();
    error
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
    let world = TestCluster::new(Arc::new(Hook)).await;
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
