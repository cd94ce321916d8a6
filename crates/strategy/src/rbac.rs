//! Roles and their bindings.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{items, name, text},
    names::NameRule,
};
use crate::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Kinds of `rbac.authorization.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rbac {
    /// A Role.
    Role,
    /// A ClusterRole.
    ClusterRole,
    /// A RoleBinding.
    RoleBinding,
    /// A ClusterRoleBinding.
    ClusterRoleBinding,
}

impl Rbac {
    fn is_role(self) -> bool {
        matches!(self, Self::Role | Self::ClusterRole)
    }

    fn is_namespaced(self) -> bool {
        matches!(self, Self::Role | Self::RoleBinding)
    }
}

impl Strategy for Rbac {
    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(*self, value, live)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn metadata_validations(&self) -> usize {
        5
    }
}

fn validate(kind: Rbac, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.is_role() {
        for (index, rule) in items(value, "rules").iter().enumerate() {
            validate_rule(kind, rule, &format!("rules[{index}]"), &mut causes);
        }
        if live.is_some() {
            // an update validates the rules twice, and reports each error twice
            causes.extend(causes.clone());
        }
        return causes;
    }
    let role = &value["roleRef"];
    if text(role, "apiGroup") != GROUP {
        causes.push(Cause::unsupported("roleRef.apiGroup", &role["apiGroup"], &[GROUP]));
    }
    let known: &[&str] = if kind.is_namespaced() { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !known.contains(&text(role, "kind")) {
        causes.push(Cause::unsupported("roleRef.kind", &Value::from(text(role, "kind")), known));
    }
    if text(role, "name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    } else {
        name(NameRule::PathSegment, &role["name"], "roleRef.name", &mut causes);
    }
    for (index, subject) in items(value, "subjects").iter().enumerate() {
        validate_subject(kind, subject, &format!("subjects[{index}]"), &mut causes);
    }
    if live.is_some() {
        // as of roles
        causes.extend(causes.clone());
    }
    if let Some(live) = live
        && live["roleRef"] != *role
    {
        let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        causes.push(Cause::invalid("roleRef", &shown, "cannot change roleRef"));
    }
    causes
}

fn validate_rule(kind: Rbac, rule: &Value, path: &str, causes: &mut Vec<Cause>) {
    let empty = |key: &str| items(rule, key).is_empty();
    if empty("verbs") {
        causes.push(Cause::required(format!("{path}.verbs"), "verbs must contain at least one value"));
    }
    if !empty("nonResourceURLs") {
        let own = format!("{path}.nonResourceURLs");
        if kind.is_namespaced() {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            causes.push(Cause::invalid(own.as_str(), &rule["nonResourceURLs"], detail));
        }
        if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(Cause::invalid(own, &rule["nonResourceURLs"], detail));
        }
        return;
    }
    for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if empty(key) {
            causes.push(Cause::required(
                format!("{path}.{key}"),
                format!("resource rules must supply at least one {what}"),
            ));
        }
    }
}

fn validate_subject(binding: Rbac, subject: &Value, path: &str, causes: &mut Vec<Cause>) {
    if text(subject, "name").is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !text(subject, "name").is_empty() {
                name(NameRule::Subdomain, &subject["name"], &format!("{path}.name"), causes);
            }
            if !text(subject, "apiGroup").is_empty() {
                causes.push(Cause::unsupported(format!("{path}.apiGroup"), &subject["apiGroup"], &[""]));
            }
            if !binding.is_namespaced() && text(subject, "namespace").is_empty() {
                causes.push(Cause::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" => {
            if text(subject, "apiGroup") != GROUP {
                causes.push(Cause::unsupported(format!("{path}.apiGroup"), &subject["apiGroup"], &[GROUP]));
            }
        }
        kind => causes.push(Cause::unsupported(
            format!("{path}.kind"),
            &Value::from(kind),
            &["ServiceAccount", "User", "Group"],
        )),
    }
}
