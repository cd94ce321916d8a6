//! Validates the security contexts of pods and containers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::files;
use crate::{
    Cause,
    checks::{items, one_of, text},
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
    let policy = &context["supplementalGroupsPolicy"];
    one_of(policy, &format!("{own}.supplementalGroupsPolicy"), &["Merge", "Strict"], causes);
    one_of(&context["seLinuxChangePolicy"], &format!("{own}.seLinuxChangePolicy"), &["Recursive"], causes);
    sysctls(items(context, "sysctls"), &format!("{own}.sysctls"), causes);
    profiles(context, &own, causes);
    if spec["hostUsers"] == false {
        // kube-apiserver writes two of these as in Go.
        for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
        {
            if spec[field] == true {
                causes.push(Cause::forbidden(format!("{path}.{shown}"), "when `hostUsers` is false"));
            }
        }
    }
}

fn sysctls(sysctls: &[Value], path: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let (name, own) = (text(sysctl, "name"), format!("{path}[{index}].name"));
        let is_first = seen.insert(name);
        if name.is_empty() {
            causes.push(Cause::required(own, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_sysctl_part) {
            let detail = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.push(Cause::invalid(own, &sysctl["name"], detail));
        } else if !is_first {
            causes.push(Cause::duplicate(own, &sysctl["name"]));
        }
    }
}

fn is_sysctl_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    part.bytes().all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
        && part.bytes().next().is_some_and(plain)
        && part.bytes().next_back().is_some_and(plain)
}

/// Refuses a container that sees all of `/proc`, unless its users are not those of the node.
pub(super) fn unmasked(container: &Value, spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mount = &container["securityContext"]["procMount"];
    if mount == "Unmasked" && spec["hostUsers"] != false {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        causes.push(Cause::invalid(format!("{path}.securityContext.procMount"), mount, detail));
    }
}

/// Validates the security context of a container.
pub(super) fn of_container(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (context, own) = (&container["securityContext"], format!("{path}.securityContext"));
    ids(context, &own, causes);
    profiles(context, &own, causes);
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

/// Validates the seccomp and AppArmor profiles of a security context.
fn profiles(context: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (field, system) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let (profile, own) = (&context[field], format!("{path}.{field}"));
        if !profile.is_object() {
            continue;
        }
        let kind = text(profile, "type");
        if kind.is_empty() {
            let detail = format!("type is required when {field} is set");
            causes.push(Cause::required(format!("{own}.type"), detail));
        } else {
            let known = ["Localhost", "RuntimeDefault", "Unconfined"];
            one_of(&profile["type"], &format!("{own}.type"), &known, causes);
        }
        let (file, own) = (&profile["localhostProfile"], format!("{own}.localhostProfile"));
        let name = text(profile, "localhostProfile");
        if kind != "Localhost" {
            if !file.is_null() {
                // kube-apiserver shows the seccomp profile as it is in Go.
                let shown = json!({"Type": kind, "LocalhostProfile": file});
                let shown = if system == "seccomp" { &shown } else { file };
                let detail = format!("can only be set when {system} type is Localhost");
                causes.push(Cause::invalid(own, shown, detail));
            }
        } else if name.trim().is_empty() {
            let detail = format!("must be set when {system} type is Localhost");
            causes.push(Cause::required(own, detail));
        } else if system == "seccomp" {
            files::below(file, &own, causes);
        } else if name.trim() != name {
            causes.push(Cause::invalid(own, file, "must not be padded with whitespace"));
        }
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
