//! Waits for what the next part of an installation needs.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use longboat_controller::reader;
use longboat_install::{Installation, names::CONTROLLER};
use longboat_plan::pods;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    object::{self, MANAGER},
    trust,
};
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
    pub(super) async fn sleep_or(&self, missing: impl FnOnce() -> anyhow::Error) -> anyhow::Result<()> {
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
    desired: &Value,
    deadline: Deadline,
    missing: impl Fn(&Value) -> Option<String>,
) -> anyhow::Result<()> {
    let title = object::title(desired);
    let api = object::api_of(client, desired)?;
    loop {
        let found = api.get(object::name(desired)).await;
        let found = found.map_err(|error| object::refused("read", &title, &error))?;
        let Some(missing) = missing(&found.data) else { return Ok(()) };
        deadline.sleep_or(|| deadline.missed(&format!("{title} {missing}"))).await?;
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
    let mut was_reported = false;
    loop {
        let found = deployments.get(CONTROLLER).await;
        let found = found.map_err(|error| object::refused("read", &title, &error))?;
        let Rollout { desired, available, is_complete } = Rollout::of(&found);
        if is_complete {
            return Ok(());
        }
        if deadline.is_over() {
            let why = unready_pods(client, namespace).await;
            return Err(
                deadline.missed(&format!("{title} has {available} of {desired} replicas available{why}"))
            );
        }
        if !was_reported {
            printer::note(&format!("waiting for {title}: {available} of {desired} replicas available"));
            was_reported = true;
        }
        deadline.sleep_interval().await;
    }
}

/// How far the rollout of a Deployment is.
#[derive(Debug, PartialEq, Eq)]
struct Rollout {
    desired: i32,
    /// The available pods of the present template.
    available: i32,
    is_complete: bool,
}

// === impl Rollout ===

impl Rollout {
    fn of(deployment: &Deployment) -> Self {
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.clone().unwrap_or_default();
        let updated = status.updated_replicas.unwrap_or(0);
        // `availableReplicas` counts pods of the old template as well, and these stay until new ones are available: with one
        // replica, the old pod alone would look like the end of the rollout. `kubectl rollout status` waits for their end, too.
        let old = (status.replicas.unwrap_or(0) - updated).max(0);
        let available = (status.available_replicas.unwrap_or(0) - old).max(0);
        let is_seen = status.observed_generation >= deployment.metadata.generation;
        Self {
            desired,
            available,
            is_complete: is_seen && old == 0 && updated >= desired && available >= desired,
        }
    }
}

/// Returns why pods of the controller are not ready, as far as their status says.
async fn unready_pods(client: &Client, namespace: &str) -> String {
    let list = ListParams::default().labels(&format!("control-plane={CONTROLLER}"));
    let found = Api::<Pod>::namespaced(client.clone(), namespace).list(&list).await;
    let Ok(found) = found else { return String::new() };
    if found.items.is_empty() {
        return ": there are no pods (run `kubectl describe replicaset` to see why)".to_owned();
    }
    let unready = found.items.iter().filter(|pod| !pods::is_ready(pod)).map(|pod| {
        let why = pods::failure(pod).map(|failure| failure.text);
        let why = why.unwrap_or_else(|| "not ready; see its log and /readyz".to_owned());
        format!("\n  pod {}: {why}", pod.name_any())
    });
    unready.collect()
}

/// Waits until every webhook has a CA.
pub(super) async fn trusted(
    client: &Client,
    installation: &Installation,
    deadline: Deadline,
) -> anyhow::Result<()> {
    for desired in installation.definitions.iter().chain(trust::webhooks(installation)) {
        complete(client, desired, deadline, |found| {
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
                    // A kind is served only a moment after its definition is established.
                    || matches!(status.code, 404 | 429 | 503 | 504)
            }
            _ => true,
        };
        if !passing {
            return Err(object::refused("try", &object::title(&probe), &error));
        }
        let why = reader::sentence(&error);
        deadline
            .sleep_or(|| deadline.missed(&format!("the API servers cannot reach the webhooks: {why}")))
            .await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_complete_when_no_old_pod_is_left() {
        let rollout = |replicas: i32, updated: i32, available: i32| {
            let status = json!({
                "observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available,
            });
            let deployment = json!({
                "metadata": {"generation": 2},
                "spec": {"replicas": 1, "selector": {}, "template": {}}, "status": status,
            });
            let Rollout { available, is_complete, .. } =
                Rollout::of(&serde_json::from_value(deployment).unwrap());
            (available, is_complete)
        };
        // The image of the new pod cannot be pulled, and the old pod runs.
        assert_eq!(rollout(2, 1, 1), (0, false));
        assert_eq!(rollout(2, 1, 2), (1, false));
        assert_eq!(rollout(1, 1, 1), (1, true));
    }
}
