//! Validates the security contexts of pods and containers.

use serde_json::Value;

use crate::{
    Cause,
    checks::{items, one_of},
};

/// Validates the security context of a pod.
pub(super) fn of_pod(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (context, own) = (&spec["securityContext"], format!("{path}.securityContext"));
    ids(context, &own, causes);
    if spec["hostPID"] == true && spec["shareProcessNamespace"] == true {
        causes.push(Cause::invalid(
            format!("{own}.shareProcessNamespace"),
            &Value::Bool(true),
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        id(group, format!("{own}.supplementalGroups[{index}]"), causes);
    }
    let policy = &context["fsGroupChangePolicy"];
    one_of(policy, &format!("{own}.fsGroupChangePolicy"), &["Always", "OnRootMismatch"], causes);
    profile(context, &own, causes);
}

/// Validates the security context of a container.
pub(super) fn of_container(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (context, own) = (&container["securityContext"], format!("{path}.securityContext"));
    ids(context, &own, causes);
    profile(context, &own, causes);
    one_of(&context["procMount"], &format!("{own}.procMount"), &["Default", "Unmasked"], causes);
    if context["allowPrivilegeEscalation"] == false {
        let mut refuse = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            causes.push(Cause::invalid(own.clone(), context, &detail));
        };
        if context["privileged"] == true {
            refuse("`privileged` to true");
        }
        if items(&context["capabilities"], "add").iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}

fn ids(context: &Value, path: &str, causes: &mut Vec<Cause>) {
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        id(&context[key], format!("{path}.{key}"), causes);
    }
}

fn id(value: &Value, path: String, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        causes.push(Cause::invalid(path, value, "must be between 0 and 2147483647, inclusive"));
    }
}

/// Validates the seccomp profile of a security context.
fn profile(context: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (seccomp, own) = (&context["seccompProfile"], format!("{path}.seccompProfile"));
    let kind = &seccomp["type"];
    one_of(kind, &format!("{own}.type"), &["Localhost", "RuntimeDefault", "Unconfined"], causes);
    let file = &seccomp["localhostProfile"];
    if kind == "Localhost" && file.as_str().unwrap_or_default().is_empty() {
        let detail = "must be set when seccomp type is Localhost";
        causes.push(Cause::required(format!("{own}.localhostProfile"), detail));
    }
    if kind != "Localhost" && !file.is_null() {
        let detail = "can only be set when seccomp type is Localhost";
        causes.push(Cause::invalid(format!("{own}.localhostProfile"), file, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_cannot_be_privileged_and_forbid_to_become_so() {
        let refused = |context: Value| {
            let mut causes = Vec::new();
            of_container(&json!({"securityContext": context}), "c", &mut causes);
            causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        let context = "c.securityContext";
        assert_eq!(refused(json!({"allowPrivilegeEscalation": false, "privileged": true})), [context]);
        let added = json!({"add": ["CAP_SYS_ADMIN"]});
        assert_eq!(refused(json!({"allowPrivilegeEscalation": false, "capabilities": added})), [context]);
        assert_eq!(refused(json!({"privileged": true, "capabilities": added})), [""; 0]);
        let profile = format!("{context}.seccompProfile.localhostProfile");
        assert_eq!(refused(json!({"seccompProfile": {"type": "Localhost"}})), [profile.as_str()]);
        let unconfined = json!({"seccompProfile": {"type": "Unconfined", "localhostProfile": "p"}});
        assert_eq!(refused(unconfined), [profile]);
    }
}
