//! Pod specs.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, HTTPGetAction, PodSpec, Probe, ResourceRequirements, Volume,
};

const FILE_MODE: i32 = 0o644;
/// How long a projected service account token is valid.
const TOKEN_SECONDS: i64 = 3600;

pub(super) fn defaults(pod: &mut PodSpec) {
    text(&mut pod.dns_policy, "ClusterFirst");
    text(&mut pod.restart_policy, "Always");
    text(&mut pod.scheduler_name, "default-scheduler");
    pod.termination_grace_period_seconds.get_or_insert(30);
    pod.security_context.get_or_insert_default();
    // Two names of one field: the API server keeps the older one for old clients.
    if pod.service_account_name.as_ref().is_none_or(String::is_empty) {
        pod.service_account_name = pod.service_account.take();
    }
    pod.service_account.clone_from(&pod.service_account_name);
    let init = pod.init_containers.iter_mut().flatten();
    for container in pod.containers.iter_mut().chain(init) {
        self::container(container);
    }
    pod.volumes.iter_mut().flatten().for_each(volume);
}

fn text(field: &mut Option<String>, default: &str) {
    if field.as_ref().is_none_or(String::is_empty) {
        *field = Some(default.to_owned());
    }
}

fn container(container: &mut Container) {
    text(&mut container.termination_message_path, "/dev/termination-log");
    text(&mut container.termination_message_policy, "File");
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    text(&mut container.image_pull_policy, policy);
    container.resources.get_or_insert_with(ResourceRequirements::default);
    for port in container.ports.iter_mut().flatten() {
        text(&mut port.protocol, "TCP");
    }
    container.env.iter_mut().flatten().for_each(variable);
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    if let Some(lifecycle) = &mut container.lifecycle {
        for hook in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
            if let Some(get) = &mut hook.http_get {
                http_get(get);
            }
        }
    }
}

/// Images without a tag, or with `latest`, are pulled each time.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn variable(variable: &mut EnvVar) {
    let Some(source) = &mut variable.value_from else { return };
    if let Some(field) = &mut source.field_ref {
        text(&mut field.api_version, "v1");
    }
    if let Some(resource) = &mut source.resource_field_ref {
        resource
            .divisor
            .get_or_insert_with(|| k8s_openapi::apimachinery::pkg::api::resource::Quantity("0".into()));
    }
}

fn probe(probe: &mut Probe) {
    for (field, default) in [
        (&mut probe.timeout_seconds, 1),
        (&mut probe.period_seconds, 10),
        (&mut probe.success_threshold, 1),
        (&mut probe.failure_threshold, 3),
    ] {
        if field.is_none_or(|value| value == 0) {
            *field = Some(default);
        }
    }
    if let Some(get) = &mut probe.http_get {
        http_get(get);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn http_get(get: &mut HTTPGetAction) {
    text(&mut get.path, "/");
    text(&mut get.scheme, "HTTP");
}

fn volume(volume: &mut Volume) {
    if let Some(secret) = &mut volume.secret {
        secret.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(config_map) = &mut volume.config_map {
        config_map.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(downward) = &mut volume.downward_api {
        downward.default_mode.get_or_insert(FILE_MODE);
        for field in downward.items.iter_mut().flatten().filter_map(|item| item.field_ref.as_mut()) {
            text(&mut field.api_version, "v1");
        }
    }
    if let Some(projected) = &mut volume.projected {
        projected.default_mode.get_or_insert(FILE_MODE);
        for source in projected.sources.iter_mut().flatten() {
            if let Some(token) = &mut source.service_account_token {
                token.expiration_seconds.get_or_insert(TOKEN_SECONDS);
            }
            let items =
                source.downward_api.iter_mut().flat_map(|downward| downward.items.iter_mut().flatten());
            for field in items.filter_map(|item| item.field_ref.as_mut()) {
                text(&mut field.api_version, "v1");
            }
        }
    }
    if let Some(path) = &mut volume.host_path {
        path.type_.get_or_insert_default();
    }
    if let Some(image) = &mut volume.image {
        let policy = pull_policy(image.reference.as_deref().unwrap_or_default());
        text(&mut image.pull_policy, policy);
    }
    if let Some(claim) =
        volume.ephemeral.as_mut().and_then(|ephemeral| ephemeral.volume_claim_template.as_mut())
    {
        text(&mut claim.spec.volume_mode, "Filesystem");
    }
}
