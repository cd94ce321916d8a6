//! Validates the security contexts of pods and containers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::files;
use crate::{Field, checks::within};

/// How annotations with the AppArmor profile of a container begin.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Validates the security context of a pod.
pub(super) fn of_pod(spec: &Field<'_>) {
    let context = spec.at("securityContext");
    ids(&context);
    if spec["hostPID"] == true && spec["shareProcessNamespace"] == true {
        context
            .at("shareProcessNamespace")
            .invalid_as(true, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    context.items("supplementalGroups").for_each(|group| id(&group));
    context.at("fsGroupChangePolicy").one_of(&["Always", "OnRootMismatch"]);
    context.at("supplementalGroupsPolicy").one_of(&["Merge", "Strict"]);
    context.at("seLinuxChangePolicy").one_of(&["Recursive"]);
    sysctls(&context);
    profiles(&context);
    if spec["hostUsers"] == false {
        // kube-apiserver writes two of these as in Go.
        for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
        {
            if spec[field] == true {
                spec.at(shown).forbidden("when `hostUsers` is false");
            }
        }
    }
}

fn sysctls(context: &Field<'_>) {
    let mut seen = BTreeSet::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.at("name");
        let text = name.as_text();
        let is_first = seen.insert(text);
        if text.is_empty() {
            name.required("");
        } else if text.len() > 253 || !text.split(['.', '/']).all(is_sysctl_part) {
            name.invalid(r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$");
        } else if !is_first {
            name.duplicate();
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
pub(super) fn refuse_unmasked(container: &Field<'_>, spec: &Field<'_>) {
    let mount = container.at("securityContext.procMount");
    if mount.as_text() == "Unmasked" && spec["hostUsers"] != false {
        mount.invalid("`hostUsers` must be false to use `Unmasked`");
    }
}

/// Validates the security context of a container.
pub(super) fn of_container(container: &Field<'_>) {
    let context = container.at("securityContext");
    ids(&context);
    profiles(&context);
    context.at("procMount").one_of(&["Default", "Unmasked"]);
    if context["allowPrivilegeEscalation"] == false {
        let refuse = |what: &str| {
            context.invalid(format!("cannot set `allowPrivilegeEscalation` to false and {what}"));
        };
        if context["privileged"] == true {
            refuse("`privileged` to true");
        }
        if context.list("capabilities.add").iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}

/// Refuses AppArmor profiles in annotations, which were the place for them before, if they name no container or no profile.
pub(crate) fn profiles_in_annotations(annotations: &Field<'_>, spec: &Value) {
    for (key, profile) in annotations.as_object().into_iter().flatten() {
        let Some(container) = key.strip_prefix(APP_ARMOR_ANNOTATION) else { continue };
        let place = annotations.with(profile).named(format!("{}[{key}]", annotations.path));
        let mut all =
            ["containers", "initContainers"].iter().filter_map(|list| spec[list].as_array()).flatten();
        if !all.any(|known| known["name"] == container) {
            place.invalid_as(Value::from(container), "container not found");
        }
        let name = profile.as_str().unwrap_or_default();
        if !matches!(name, "" | "runtime/default" | "unconfined") && !name.starts_with("localhost/") {
            place.invalid(format!("invalid AppArmor profile name: {profile}"));
        }
    }
}

fn ids(context: &Field<'_>) {
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        id(&context.at(key));
    }
}

fn id(number: &Field<'_>) {
    within(number, 0..=i64::from(i32::MAX), "must be between 0 and 2147483647, inclusive");
}

/// Validates the seccomp and AppArmor profiles of a security context.
fn profiles(context: &Field<'_>) {
    for (field, system) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let profile = context.at(field);
        if !profile.is_object() {
            continue;
        }
        let (kind, file) = (profile.at("type"), profile.at("localhostProfile"));
        kind.not_empty(&format!("type is required when {field} is set"));
        if !kind.as_text().is_empty() {
            kind.one_of(&["Localhost", "RuntimeDefault", "Unconfined"]);
        }
        let name = file.as_text();
        if kind.as_text() != "Localhost" {
            if !file.is_null() {
                // kube-apiserver shows the seccomp profile as it is in Go.
                let shown = json!({"Type": kind.as_text(), "LocalhostProfile": file.value});
                let shown = if system == "seccomp" { &shown } else { file.value };
                file.invalid_as(shown, format!("can only be set when {system} type is Localhost"));
            }
        } else if name.trim().is_empty() {
            file.required(format!("must be set when {system} type is Localhost"));
        } else if system == "seccomp" {
            files::below(&file);
        } else if name.trim() != name {
            file.invalid("must not be padded with whitespace");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes_of;

    #[test]
    fn an_annotation_names_a_container_and_a_profile() {
        let refused = |container: &str, profile: &str| {
            let annotations = json!({format!("{APP_ARMOR_ANNOTATION}{container}"): profile});
            let spec = json!({"containers": [{"name": "main"}]});
            let causes =
                causes_of(&annotations, "a", |annotations| profiles_in_annotations(annotations, &spec));
            causes.into_iter().map(|cause| cause.message).collect::<Vec<_>>()
        };
        for profile in ["", "runtime/default", "unconfined", "localhost/p"] {
            assert_eq!(refused("main", profile), [""; 0]);
        }
        let unknown = "Invalid value: \"foo\": invalid AppArmor profile name: \"foo\"";
        assert_eq!(refused("main", "foo"), [unknown]);
        assert_eq!(refused("other", ""), ["Invalid value: \"other\": container not found"]);
    }

    #[test]
    fn a_container_cannot_be_privileged_and_forbid_to_become_so() {
        let refused = |context: Value| {
            let causes = causes_of(&json!({"securityContext": context}), "c", of_container);
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
