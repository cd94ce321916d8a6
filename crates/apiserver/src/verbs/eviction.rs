//! Eviction of pods. Kubernetes: pkg/registry/core/pod/storage/eviction.go.

use serde_json::{Value, json};

use super::{Call, delete, pods, update::MODIFIED};
use crate::{
    answer::Answer,
    clock, respond,
    status::ApiError,
    store::{Key, StoredObject, WriteError},
    strategy,
};

const BUDGETS: &str = "policy/poddisruptionbudgets";

/// How many times to try an eviction when other writes interfere.
const MAX_ATTEMPTS: usize = 10;

/// `POST …/eviction`: deletes a pod unless a disruption budget forbids it.
pub(crate) async fn evict(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let body = pods::body(call, "Eviction")?;
    let dry_run = call.request.query.dry_run("CreateOptions")?;
    let requested = delete::Options::of(&body["deleteOptions"], dry_run.then_some("All").into_iter())?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let pod = call.stored()?;
        // What depends on the state of the pod holds for this state only.
        let options = match permit(call, &pod, dry_run)? {
            Permit::Always => requested.clone(),
            Permit::InThisState => requested.clone().at(pod.revision),
        };
        match mark_and_delete(call, &options).await {
            Err(error) if error.code == 409 && options != requested && attempts < MAX_ATTEMPTS => {}
            done => {
                done?;
                return Ok(respond::document(call.request, 201, &pods::done()));
            }
        }
    }
}

/// Deletes a pod. Before, the pod gets a condition from which its controllers see why it ends.
async fn mark_and_delete(call: &mut Call<'_>, options: &delete::Options) -> Result<(), ApiError> {
    let mut options = options.clone();
    if !options.is_dry_run() {
        options = mark(call, options)?;
    }
    delete::object(call, &call.key(), &options).await.map(drop)
}

/// Adds the condition. Returns the options for the revision that has it.
fn mark(call: &Call<'_>, options: delete::Options) -> Result<delete::Options, ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        let pod = call.stored()?;
        delete::check_preconditions(call, &options, &pod)?;
        let mut value = Value::clone(&pod.value);
        let (reason, message) = ("EvictionByEvictionAPI", "Eviction API: evicting");
        let target = json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": clock::now(), "reason": reason, "message": message});
        set_condition(&mut value["status"], target);
        match call.state.store.update(&call.resource.table, call.key(), pod.revision, value) {
            Ok(_) if options.resource_version().is_none() => return Ok(options),
            Ok(marked) => return Ok(options.moved_to(marked.revision)),
            Err(WriteError::Changed) => {}
            Err(WriteError::Missing) => return Err(call.not_found()),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    Err(ApiError::new(409, "Conflict", MODIFIED))
}

/// Sets a condition of a status. The time of an earlier one with the same value stays.
fn set_condition(status: &mut Value, mut condition: Value) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    if let Some(index) = conditions.iter().position(|found| found["type"] == condition["type"]) {
        let earlier = conditions.remove(index);
        if earlier["status"] == condition["status"] {
            condition["lastTransitionTime"] = earlier["lastTransitionTime"].clone();
        }
    }
    conditions.push(condition);
    status["conditions"] = Value::from(conditions);
}

enum Permit {
    Always,
    InThisState,
}

/// Decides whether a pod may be evicted. An eviction that disrupts a budget is entered there.
fn permit(call: &Call<'_>, pod: &StoredObject, dry_run: bool) -> Result<Permit, ApiError> {
    let (metadata, status) = (&pod.value["metadata"], &pod.value["status"]);
    match status["phase"].as_str() {
        _ if metadata["deletionTimestamp"].is_string() => return Ok(Permit::Always),
        Some("Succeeded" | "Failed") => return Ok(Permit::Always),
        Some("Pending") => return Ok(Permit::InThisState),
        _ => {}
    }
    let mut budgets = call.state.store.list(BUDGETS, call.path.namespace.as_deref()).objects;
    budgets.retain(|(_, budget)| strategy::selects(&budget.value["spec"]["selector"], &metadata["labels"]));
    let [(key, budget)] = budgets.as_slice() else {
        if budgets.is_empty() {
            return Ok(Permit::Always);
        }
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::unexpected_error(why));
    };
    let is_ready = status["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|found| found["type"] == "Ready" && found["status"] == "True"));
    if !is_ready {
        let count = |field: &str| budget.value["status"][field].as_i64().unwrap_or(0);
        let desired = count("desiredHealthy");
        let is_healthy = desired > 0 && count("currentHealthy") >= desired;
        if is_healthy || budget.value["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
            return Ok(Permit::InThisState);
        }
    }
    disrupt(call, key, metadata["name"].as_str().unwrap_or_default(), dry_run)?;
    Ok(Permit::Always)
}

/// Takes one disruption from a budget, and enters the pod there. So the next eviction does not count on the pod, also while the
/// controller has not seen its deletion.
fn disrupt(call: &Call<'_>, key: &Key, pod: &str, dry_run: bool) -> Result<(), ApiError> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(stored) = call.state.store.get(BUDGETS, key) else { return Ok(()) };
        let count = |part: &str, field: &str| stored.value[part][field].as_i64().unwrap_or(0);
        if count("status", "observedGeneration") < count("metadata", "generation") {
            let why = format!("The disruption budget {} is still being processed by the server.", key.name);
            return Err(too_many(&why, Some(10)));
        }
        let allowed = count("status", "disruptionsAllowed");
        if allowed <= 0 {
            let why = format!(
                "The disruption budget {} needs {} healthy pods and has {} currently",
                key.name,
                count("status", "desiredHealthy"),
                count("status", "currentHealthy")
            );
            return Err(too_many(&why, None));
        }
        if dry_run {
            return Ok(());
        }
        let mut value = Value::clone(&stored.value);
        value["status"]["disruptionsAllowed"] = Value::from(allowed - 1);
        value["status"]["disruptedPods"][pod] = Value::from(clock::now());
        if allowed == 1 {
            let exhausted = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                "message": "", "lastTransitionTime": clock::now(),
                "observedGeneration": count("status", "observedGeneration")});
            set_condition(&mut value["status"], exhausted);
        }
        match call.state.store.update(BUDGETS, key.clone(), stored.revision, value) {
            Ok(_) => return Ok(()),
            Err(WriteError::Changed | WriteError::Missing) => {}
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    Err(ApiError::new(409, "Conflict", MODIFIED))
}

fn too_many(why: &str, retry_after: Option<u32>) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::new(429, "TooManyRequests", message);
    let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    if let Some(seconds) = retry_after {
        details["retryAfterSeconds"] = Value::from(seconds);
    }
    error.retry_after = retry_after;
    error.details = details.as_object().cloned();
    error
}
