//! Routes, pools and groups of pods: the defaults of their CRDs.

use k8s_openapi::{api::core::v1::Container, apimachinery::pkg::util::intstr::IntOrString};
use longboat_api::foreign::{
    httproute::{HTTPPathMatch, HTTPRouteMatch, HTTPRouteRule, HTTPRouteSpec},
    httproute_filter::HTTPRouteFilter,
    inferencepool::InferencePoolSpec,
    inferencepool_x,
    leaderworkerset::{LeaderWorkerSetSpec, RollingUpdateConfiguration},
    reference::BackendObjectReference,
};

fn text(field: &mut Option<String>, default: &str) {
    field.get_or_insert_with(|| default.to_owned());
}

fn any_path() -> HTTPPathMatch {
    HTTPPathMatch { type_: Some("PathPrefix".into()), value: Some("/".into()) }
}

/// `gateway.networking.k8s.io/v1` HTTPRoutes.
pub(crate) fn http_route(spec: &mut HTTPRouteSpec) {
    for parent in &mut spec.parent_refs {
        text(&mut parent.group, "gateway.networking.k8s.io");
        text(&mut parent.kind, "Gateway");
    }
    if spec.rules.is_empty() {
        spec.rules.push(HTTPRouteRule::default());
    }
    for rule in &mut spec.rules {
        if rule.matches.is_empty() {
            rule.matches.push(HTTPRouteMatch::default());
        }
        for found in &mut rule.matches {
            let path = found.path.get_or_insert_with(any_path);
            text(&mut path.type_, "PathPrefix");
            text(&mut path.value, "/");
            for header in &mut found.headers {
                text(&mut header.type_, "Exact");
            }
            for parameter in &mut found.query_params {
                text(&mut parameter.type_, "Exact");
            }
        }
        rule.filters.iter_mut().for_each(filter);
        for reference in &mut rule.backend_refs {
            backend(&mut reference.backend);
            reference.weight.get_or_insert(1);
            reference.filters.iter_mut().for_each(filter);
        }
        if let Some(persistence) = &mut rule.session_persistence {
            text(&mut persistence.type_, "Cookie");
            if let Some(cookie) = &mut persistence.cookie_config {
                text(&mut cookie.lifetime_type, "Session");
            }
        }
    }
}

fn backend(reference: &mut BackendObjectReference) {
    text(&mut reference.group, "");
    text(&mut reference.kind, "Service");
}

fn filter(filter: &mut HTTPRouteFilter) {
    if let Some(mirror) = &mut filter.request_mirror {
        backend(&mut mirror.backend_ref);
        if let Some(fraction) = &mut mirror.fraction {
            fraction.denominator.get_or_insert(100);
        }
    }
    if let Some(redirect) = &mut filter.request_redirect {
        redirect.status_code.get_or_insert(302);
    }
    if let Some(auth) = &mut filter.external_auth {
        backend(&mut auth.backend_ref);
    }
}

/// `inference.networking.k8s.io/v1` InferencePools.
pub(crate) fn inference_pool(spec: &mut InferencePoolSpec) {
    let picker = &mut spec.endpoint_picker_ref;
    text(&mut picker.group, "");
    for (field, default) in [
        (&mut spec.app_protocol, "http"),
        (&mut picker.kind, "Service"),
        (&mut picker.failure_mode, "FailClose"),
    ] {
        if field.is_empty() {
            default.clone_into(field);
        }
    }
}

/// `inference.networking.x-k8s.io/v1alpha2` InferencePools.
pub(crate) fn inference_pool_x(spec: &mut inferencepool_x::InferencePoolSpec) {
    let picker = &mut spec.extension_ref;
    text(&mut picker.group, "");
    text(&mut picker.kind, "Service");
    text(&mut picker.failure_mode, "FailClose");
}

/// `leaderworkerset.x-k8s.io/v1` LeaderWorkerSets. Their pods get defaults only when they are created; the CRD itself has few
/// defaults for pod templates.
pub(crate) fn leader_worker_set(spec: &mut LeaderWorkerSetSpec) {
    spec.replicas.get_or_insert(1);
    text(&mut spec.startup_policy, "LeaderCreated");
    if let Some(update) =
        spec.rollout_strategy.as_mut().and_then(|rollout| rollout.rolling_update_configuration.as_mut())
    {
        rolling_update(update);
    }
    let template = &mut spec.leader_worker_template;
    template.size.get_or_insert(1);
    text(&mut template.restart_policy, "RecreateGroupOnPodRestart");
    if let Some(policy) = &mut template.sub_group_policy {
        text(&mut policy.sub_group_policy_type, "LeaderWorker");
    }
    let pods = template.leader_template.iter_mut().chain(std::iter::once(&mut template.worker_template));
    for pod in pods.filter_map(|template| template.spec.as_mut()) {
        pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten()).for_each(container);
    }
}

/// How groups are rolled out.
pub(crate) fn rolling_update(update: &mut RollingUpdateConfiguration) {
    update.max_unavailable.get_or_insert(IntOrString::Int(1));
    update.max_surge.get_or_insert(IntOrString::Int(0));
}

/// Ports are a list with the keys number and protocol, so CRDs must default the protocol. Probes of gRPC have a default too.
fn container(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
    }
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    for grpc in probes.into_iter().flatten().filter_map(|probe| probe.grpc.as_mut()) {
        grpc.service.get_or_insert_default();
    }
}
