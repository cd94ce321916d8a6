//! What the profile "restricted" of Pod Security asks of pods.

use k8s_openapi::api::core::v1::{Capabilities, Container, PodSpec, SeccompProfile, SecurityContext};
use longboat_compose::platform::PodSecurity;

use crate::context::Context;

/// The one capability that the profile lets containers add.
const ALLOWED: &str = "NET_BIND_SERVICE";

/// Gives a container that the controller adds to a pod no rights that it does not need.
///
/// `non_root`: whether its image runs as a user other than root. A pod whose own context asks for root decides for itself.
/// `live`: the pod that runs now. One that was made without these settings keeps running without them: an upgrade restarts no
/// pods.
pub(super) fn confine(container: &mut Container, pod: &PodSpec, non_root: bool, live: Option<&PodSpec>) {
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
    // Whoever describes the rights of this container knows why.
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

/// Brings all containers of a pod to the profile, where the platform asks for it.
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
        let kept: Vec<String> = added.into_iter().filter(|capability| capability == ALLOWED).collect();
        context.capabilities =
            Some(Capabilities { add: Some(kept).filter(|kept| !kept.is_empty()), ..drop_all() });
        as_somebody_else(context);
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

/// Not as root: the image's user, or the one that is named.
fn as_somebody_else(context: &mut SecurityContext) {
    context.run_as_non_root = Some(true);
    context.run_as_user = context.run_as_user.filter(|user| *user != 0);
}

fn drop_all() -> Capabilities {
    Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }
}
