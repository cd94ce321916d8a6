//! The pods of a template, and the states of a pod that controllers count.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Returns the pod of a template, without a name. Kubernetes: pkg/controller/controller_utils.go GetPodFromTemplate.
pub(super) fn from_template(template: PodTemplateSpec, owner: OwnerReference) -> Pod {
    let meta = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Returns the phase of a pod, empty if nothing was reported yet.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Whether all containers of a pod have ended for good.
pub(super) fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns how often the containers of a pod have restarted.
pub(super) fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.iter();
    let lists = status.flat_map(|status| [&status.init_container_statuses, &status.container_statuses]);
    lists.flatten().flatten().map(|status| status.restart_count).sum()
}

/// Whether a pod runs or will run.
pub(super) fn is_active(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// Returns since when the pod's Ready condition is true, or `None` if it is not.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready =
        conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}
