//! Runs the controller, and shows it as the Deployment that runs it on a cluster. A rollout of the Deployment restarts it,
//! and zero replicas stop it.

use futures::StreamExt;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentCondition, DeploymentStatus},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::watcher::Event,
};
use longboat_api::{names::CONTROLLER, names::DEFAULT_SYSTEM_NAMESPACE};
use longboat_controller::Args;
use longboat_key::Namespace;
use longboat_watch::{Selection, text_of, text_of_watch};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The running controller.
struct Process {
    stop: CancellationToken,
    /// The one task. It ends when this is dropped.
    task: JoinSet<()>,
}

// === impl Process ===

impl Process {
    fn start(args: &Args, client: &Client) -> Self {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let controller = longboat_controller::run(args.clone(), client.clone(), stop.clone());
        task.spawn(async move {
            if let Err(error) = controller.await {
                tracing::error!(%error, "The controller stopped.");
            }
        });
        Self { stop, task }
    }

    /// Lets running reconciles finish, as on a cluster.
    async fn stop(mut self) {
        self.stop.cancel();
        self.task.join_next().await;
    }
}

/// Runs the controller until `shutdown`, as its Deployment specifies.
pub(crate) async fn run(args: Args, client: Client, shutdown: CancellationToken) {
    let selection = Selection::of::<Deployment>().within(Some(Namespace(DEFAULT_SYSTEM_NAMESPACE)));
    let mut events = longboat_watch::decoded::<Deployment>(
        &client,
        &selection.fields(format!("metadata.name={CONTROLLER}")),
    );
    let api: Api<Deployment> = Api::namespaced(client.clone(), DEFAULT_SYSTEM_NAMESPACE);
    // The controller does not wait for its own Deployment.
    let mut process = Some(Process::start(&args, &client));
    let mut template: Option<PodTemplateSpec> = None;
    // A controller that has ended by itself starts again only with a new template, not with each change of the Deployment.
    let mut has_failed = false;
    loop {
        let deployment = tokio::select! {
            () = shutdown.cancelled() => {
                if let Some(process) = process.take() {
                    process.stop().await;
                }
                return;
            }
            // The status must say it now: no event of the Deployment follows.
            () = ended(&mut process) => {
                (process, has_failed) = (None, true);
                match api.get(CONTROLLER).await {
                    Ok(deployment) => deployment,
                    Err(_) => continue,
                }
            }
            event = events.next() => match event {
                Some(Ok(Event::Apply(deployment) | Event::InitApply(deployment))) => {
                    let spec = deployment.spec.clone().unwrap_or_default();
                    let is_stopped = spec.replicas == Some(0);
                    let is_other = template.as_ref().is_some_and(|known| *known != spec.template);
                    template = Some(spec.template);
                    if is_stopped || is_other {
                        has_failed = false;
                        if let Some(process) = process.take() {
                            process.stop().await;
                        }
                    }
                    if process.is_none() && !is_stopped && !has_failed {
                        process = Some(Process::start(&args, &client));
                    }
                    deployment
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => {
                    tracing::debug!(error = %text_of_watch(&error), "The watch of the controller's Deployment is interrupted.");
                    continue;
                }
                None => return,
            },
        };
        report(&api, &deployment, process.is_some()).await;
    }
}

/// Waits until the controller has ended by itself.
async fn ended(process: &mut Option<Process>) {
    match process {
        Some(process) => drop(process.task.join_next().await),
        None => std::future::pending().await,
    }
}

async fn report(api: &Api<Deployment>, deployment: &Deployment, is_running: bool) {
    let status = status(deployment, is_running);
    if deployment.status.as_ref() == Some(&status) {
        return;
    }
    // A number that is absent must be removed.
    let patch = Patch::Merge(json!({"status": {
        "observedGeneration": status.observed_generation, "conditions": status.conditions,
        "replicas": status.replicas, "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas, "availableReplicas": status.available_replicas,
    }}));
    if let Err(error) = api.patch_status(CONTROLLER, &PatchParams::default(), &patch).await {
        tracing::debug!(error = %text_of(&error), "Cannot write the status of the controller's Deployment.");
    }
}

/// The status of a Deployment whose only pod is this process.
fn status(deployment: &Deployment, is_running: bool) -> DeploymentStatus {
    let before = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_wanted = deployment.spec.as_ref().is_none_or(|spec| spec.replicas != Some(0));
    let is_available = is_running || !is_wanted;
    let condition = |type_: &str, reason: &str, message: &str| {
        let status = if is_available { "True" } else { "False" };
        let same = before.clone().find(|known| known.type_ == type_ && known.status == status);
        let now = Timestamp::now();
        let since = same.and_then(|known| known.last_transition_time.clone());
        // Times in statuses have whole seconds.
        let since = since.unwrap_or_else(|| Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
        DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_update_time: Some(since.clone()),
            last_transition_time: Some(since),
        }
    };
    let [reason, message] = if is_available {
        ["MinimumReplicasAvailable", "Deployment has minimum availability."]
    } else {
        ["MinimumReplicasUnavailable", "The controller has ended; restart the rollout to start it again."]
    };
    let replicas = is_running.then_some(1);
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas,
        updated_replicas: replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        conditions: Some(vec![
            condition("Available", reason, message),
            condition(
                "Progressing",
                "NewReplicaSetAvailable",
                "The controller runs in the process of `longboat up`.",
            ),
        ]),
        ..DeploymentStatus::default()
    }
}
