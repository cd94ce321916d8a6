//! Waits for what the next part of an installation needs.

use std::{fmt::Write as _, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use longboat_controller::reader;
use longboat_install::{Installation, names::CONTROLLER};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::object::{self, MANAGER};
use crate::printer;

/// The interval between two checks.
const INTERVAL: Duration = Duration::from_millis(500);

/// The end of the time limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    end: Instant,
    limit: Duration,
}

// === impl Deadline ===

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self { end: Instant::now() + limit, limit }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Waits for one interval, but not beyond the deadline.
    pub(super) async fn sleep_interval(&self) {
        tokio::time::sleep_until(self.end.min(Instant::now() + INTERVAL)).await;
    }

    /// Waits for one interval. After the deadline, returns what is still missing as the error.
    pub(super) async fn nap_or(&self, missing: impl FnOnce() -> anyhow::Error) -> anyhow::Result<()> {
        if self.is_over() {
            return Err(missing());
        }
        self.sleep_interval().await;
        Ok(())
    }

    /// Returns the error after the deadline.
    fn missed(&self, what: &str) -> anyhow::Error {
        anyhow::anyhow!(
            "timed out after {} s: {what}\n  The written objects stay. Run this command again to continue, with a \
             longer --timeout if the cluster is slow.",
            self.limit.as_secs()
        )
    }
}

/// Waits until nothing is missing from an object on the cluster.
async fn complete(
    client: &Client,
    wanted: &Value,
    deadline: Deadline,
    missing: impl Fn(&Value) -> Option<String>,
) -> anyhow::Result<()> {
    let title = object::title(wanted);
    let api = object::api_of(client, wanted)?;
    loop {
        let found = api.get(object::name(wanted)).await;
        let found = found.map_err(|error| object::refused("read", &title, &error))?;
        let Some(missing) = missing(&found.data) else { return Ok(()) };
        deadline.nap_or(|| deadline.missed(&format!("{title} {missing}"))).await?;
    }
}

/// Waits until API servers serve Longboat's kinds.
pub(super) async fn established(
    client: &Client,
    definitions: &[Value],
    deadline: Deadline,
) -> anyhow::Result<()> {
    for definition in definitions {
        complete(client, definition, deadline, |found| {
            let find = |kind: &str, status: &str| {
                let mut conditions = found["status"]["conditions"].as_array().into_iter().flatten();
                conditions.find(|c| c["type"] == kind && c["status"] == status)
            };
            if find("Established", "True").is_some() {
                return None;
            }
            let why = find("NamesAccepted", "False").and_then(|names| names["message"].as_str());
            Some(format!("is not established: {}", why.unwrap_or("the API server gives no reason")))
        })
        .await?;
    }
    Ok(())
}

/// Waits until the desired number of controllers is available.
pub(super) async fn available(client: &Client, namespace: &str, deadline: Deadline) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let title = object::named("Deployment", Some(namespace), CONTROLLER);
    let mut said = false;
    loop {
        let found = deployments.get(CONTROLLER).await;
        let found = found.map_err(|error| object::refused("read", &title, &error))?;
        let wanted = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = found.status.clone().unwrap_or_default();
        let seen = status.observed_generation >= found.metadata.generation;
        let (updated, ready) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
        if seen && updated >= wanted && ready >= wanted {
            return Ok(());
        }
        if deadline.is_over() {
            let why = unready_pods(client, namespace).await;
            return Err(deadline.missed(&format!("{title} has {ready} of {wanted} replicas available{why}")));
        }
        if !said {
            printer::note(&format!("waiting for {title}: {ready} of {wanted} replicas available"));
            said = true;
        }
        deadline.sleep_interval().await;
    }
}

/// Returns why pods of the controller are not ready, as far as their status says.
async fn unready_pods(client: &Client, namespace: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = ListParams::default().labels(&format!("control-plane={CONTROLLER}"));
    let Ok(found) = pods.list(&list).await else { return String::new() };
    if found.items.is_empty() {
        return ": there are no pods (run `kubectl describe replicaset` to see why)".to_owned();
    }
    let mut text = String::new();
    for pod in found {
        let status = pod.status.clone().unwrap_or_default();
        let waiting = status.container_statuses.iter().flatten().find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            Some((waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default()))
        });
        let unscheduled = status.conditions.iter().flatten().find_map(|condition| {
            (condition.type_ == "PodScheduled" && condition.status == "False").then(|| {
                (condition.reason.clone().unwrap_or_default(), condition.message.clone().unwrap_or_default())
            })
        });
        let (reason, message) = waiting
            .or(unscheduled)
            .unwrap_or((status.phase.unwrap_or_default(), "not ready; see its log and /readyz".to_owned()));
        let _ = write!(text, "\n  pod {}: {reason}: {message}", pod.name_any());
    }
    text
}

/// Waits until every webhook has a CA.
pub(super) async fn trusted(
    client: &Client,
    installation: &Installation,
    deadline: Deadline,
) -> anyhow::Result<()> {
    let webhooks = installation.controller.iter().filter(|object| object.get("webhooks").is_some());
    for wanted in installation.definitions.iter().chain(webhooks) {
        complete(client, wanted, deadline, |found| {
            (!is_trusting(found)).then(|| {
                "has no CA bundle for the webhooks: the controller writes it, or cert-manager if `certManager` \
                 is set; see the log of the one that writes it"
                    .to_owned()
            })
        })
        .await?;
    }
    Ok(())
}

fn is_trusting(object: &Value) -> bool {
    let has = |client: &Value| client["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty());
    let webhooks = object["webhooks"].as_array().into_iter().flatten();
    let conversion = &object["spec"]["conversion"]["webhook"]["clientConfig"];
    webhooks.map(|webhook| &webhook["clientConfig"]).all(has) && (conversion.is_null() || has(conversion))
}

/// Waits until the webhooks answer, by a dry run that creates a config.
pub(super) async fn answering(client: &Client, namespace: &str, deadline: Deadline) -> anyhow::Result<()> {
    let probe = json!({
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": MANAGER, "namespace": namespace},
        "spec": {},
    });
    let api = object::api_of(client, &probe)?;
    let mut params = PatchParams::apply(MANAGER).force();
    params.dry_run = true;
    loop {
        let Err(error) = api.patch(MANAGER, &params, &Patch::Apply(&probe)).await else { return Ok(()) };
        let passing = match &error {
            kube::Error::Api(status) => {
                status.message.contains("failed calling webhook")
                    || status.message.contains("conversion webhook")
                    || matches!(status.code, 404 | 429 | 503 | 504)
            }
            _ => true,
        };
        if !passing {
            return Err(object::refused("try", &object::title(&probe), &error));
        }
        let why = reader::sentence(&error);
        deadline
            .nap_or(|| deadline.missed(&format!("the API servers cannot reach the webhooks: {why}")))
            .await?;
    }
}
