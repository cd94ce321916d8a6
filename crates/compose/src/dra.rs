//! Adds the claim of managed devices, which annotations ask for, to every pod spec.

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, ResourceClaim};
use longboat_api::{
    annotations::{DRA_CONTAINER_NAME, DRA_DEVICE_CLASS},
    child_name,
    names::MANAGED_DEVICE,
    names::suffix,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};

/// Adds the claim to all workloads if the service's annotations ask for devices.
pub(crate) fn inject(spec: &mut LLMInferenceServiceSpec, service: &LLMInferenceService) {
    let annotation = |key: &str| service.metadata.annotations.as_ref().and_then(|a| a.get(key));
    if annotation(DRA_DEVICE_CLASS).is_none() {
        return;
    }
    let template = child_name(service.metadata.name.as_deref().unwrap_or_default(), suffix::MANAGED_DRA);
    let container = annotation(DRA_CONTAINER_NAME).map(|name| name.trim()).filter(|name| !name.is_empty());
    let workloads = [Some(&mut spec.workload), spec.prefill.as_deref_mut()];
    for workload in workloads.into_iter().flatten() {
        for pod in [workload.template.as_deref_mut(), workload.worker.as_deref_mut()].into_iter().flatten() {
            inject_pod(pod, &template, container);
        }
    }
}

fn inject_pod(pod: &mut PodSpec, template: &str, container: Option<&str>) {
    let claims = pod.resource_claims.get_or_insert_default();
    if claims.iter().all(|claim| claim.name != MANAGED_DEVICE) {
        claims.push(PodResourceClaim {
            name: MANAGED_DEVICE.to_owned(),
            resource_claim_template_name: Some(template.to_owned()),
            ..PodResourceClaim::default()
        });
    }
    // If no container has that name, none is selected, not even the first.
    let target = match container {
        Some(name) => pod.containers.iter_mut().find(|c| c.name == name),
        None => pod.containers.first_mut(),
    };
    if let Some(target) = target {
        let claims = target.resources.get_or_insert_default().claims.get_or_insert_default();
        if claims.iter().all(|claim| claim.name != MANAGED_DEVICE) {
            claims.push(ResourceClaim { name: MANAGED_DEVICE.to_owned(), request: None });
        }
    }
}
