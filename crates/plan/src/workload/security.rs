//! What the profile "restricted" of Pod Security requires of pods.

use k8s_openapi::api::core::v1::{Capabilities, Container, PodSpec, SeccompProfile, SecurityContext};
use longboat_compose::platform::PodSecurity;

use crate::context::Context;

/// The only capability that the profile allows containers to add.
const ALLOWED: &str = "NET_BIND_SERVICE";

/// Limits the rights of a container that the controller adds to a pod to those that it needs.
///
/// `non_root`: whether the image runs as a user other than root. If the pod's own security context asks for root, it stays
/// root. `live`: the pod that runs now. If it was created without these settings, it keeps running without them, because an
/// upgrade must not restart pods.
pub(super) fn restrict_rights(
    container: &mut Container,
    pod: &PodSpec,
    non_root: bool,
    live: Option<&PodSpec>,
) {
    let runs_without = |live: &PodSpec| {
        let all = live.init_containers.iter().flatten().chain(&live.containers);
        let mut same = all.filter(|running| running.name == container.name);
        same.any(|running| {
            running.security_context.as_ref().is_none_or(|context| context.capabilities.is_none())
        })
    };
    if live.is_some_and(runs_without) {
        return;
    }
    let as_root = pod
        .security_context
        .as_ref()
        .is_some_and(|context| context.run_as_user == Some(0) || context.run_as_non_root == Some(false));
    let context = container.security_context.get_or_insert_default();
    // A user who sets the rights of this container decides about them.
    if context.privileged == Some(true) || context.capabilities.is_some() {
        return;
    }
    context.allow_privilege_escalation.get_or_insert(false);
    context.capabilities = Some(drop_all());
    context.seccomp_profile.get_or_insert_with(runtime_default);
    if non_root && !as_root && context.run_as_user != Some(0) {
        context.run_as_non_root.get_or_insert(true);
    }
}

/// Makes all containers of a pod comply with the profile, if the platform asks for that.
pub(crate) fn restrict(context: &Context, pod: &mut PodSpec) {
    if context.snapshot.platform.pod_security != PodSecurity::Restricted {
        return;
    }
    let of_pod = pod.security_context.as_ref().and_then(|context| context.seccomp_profile.clone());
    for container in pod.init_containers.iter_mut().flatten().chain(&mut pod.containers) {
        let context = container.security_context.get_or_insert_default();
        context.privileged = None;
        context.proc_mount = None;
        context.allow_privilege_escalation = Some(false);
        let added = context.capabilities.take().and_then(|capabilities| capabilities.add).unwrap_or_default();
        let allowed: Vec<String> = added.into_iter().filter(|capability| capability == ALLOWED).collect();
        context.capabilities =
            Some(Capabilities { add: Some(allowed).filter(|allowed| !allowed.is_empty()), ..drop_all() });
        require_non_root(context);
        let seccomp = context.seccomp_profile.as_ref().or(of_pod.as_ref());
        if seccomp.is_none_or(|profile| profile.type_ == "Unconfined") {
            context.seccomp_profile = Some(runtime_default());
        }
    }
    if let Some(context) = &mut pod.security_context {
        context.run_as_non_root = Some(true);
        context.run_as_user = context.run_as_user.filter(|user| *user != 0);
    }
}

/// Runs the container as a user other than root: the image's user, or the named one.
fn require_non_root(context: &mut SecurityContext) {
    context.run_as_non_root = Some(true);
    context.run_as_user = context.run_as_user.filter(|user| *user != 0);
}

fn drop_all() -> Capabilities {
    Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }
}
