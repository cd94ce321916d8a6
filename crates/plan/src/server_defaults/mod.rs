//! The defaults that the API server fills into the objects that we write.

mod autoscaler;
mod foreign;
mod pod;

use k8s_openapi::{
    api::{
        apps::v1::{DeploymentSpec, RollingUpdateDeployment},
        core::v1::ServiceSpec,
        resource::v1::ResourceClaimTemplateSpec,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

pub(crate) use autoscaler::{autoscaler, scaled_object};
pub(crate) use foreign::{http_route, inference_pool, inference_pool_x, leader_worker_set, rolling_update};

/// `apps/v1` Deployments, with their pods.
pub(crate) fn deployment(spec: &mut DeploymentSpec) {
    spec.replicas.get_or_insert(1);
    spec.revision_history_limit.get_or_insert(10);
    spec.progress_deadline_seconds.get_or_insert(600);
    let strategy = spec.strategy.get_or_insert_default();
    let type_ = strategy.type_.get_or_insert_with(|| "RollingUpdate".into());
    if type_ == "RollingUpdate" {
        let rolling = strategy.rolling_update.get_or_insert_with(RollingUpdateDeployment::default);
        let quarter = || IntOrString::String("25%".into());
        rolling.max_surge.get_or_insert_with(quarter);
        rolling.max_unavailable.get_or_insert_with(quarter);
    }
    pod::defaults(spec.template.spec.get_or_insert_default());
}

/// `resource.k8s.io/v1` ResourceClaimTemplates.
pub(crate) fn resource_claim_template(spec: &mut ResourceClaimTemplateSpec) {
    let requests = spec.spec.devices.iter_mut().flat_map(|devices| devices.requests.iter_mut().flatten());
    for request in requests.filter_map(|request| request.exactly.as_mut()) {
        let mode = request.allocation_mode.get_or_insert_with(|| "ExactCount".into());
        if mode == "ExactCount" {
            request.count.get_or_insert(1);
        }
    }
}

/// `v1` Services, except addresses.
pub(crate) fn service(spec: &mut ServiceSpec) {
    spec.type_.get_or_insert_with(|| "ClusterIP".into());
    spec.session_affinity.get_or_insert_with(|| "None".into());
    spec.internal_traffic_policy.get_or_insert_with(|| "Cluster".into());
    for port in spec.ports.iter_mut().flatten() {
        port.protocol.get_or_insert_with(|| "TCP".into());
        let number = port.port;
        port.target_port.get_or_insert(IntOrString::Int(number));
    }
}
