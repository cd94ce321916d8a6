//! Roles and their bindings.

use serde_json::{Value, json};

use super::{Strategy, checks, names::NameRule};
use crate::Field;

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
    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let role = object.at("roleRef");
        if self.is_role() {
            object.items("rules").for_each(|rule| validate_rule(*self, &rule));
            aggregation(&object.at("aggregationRule"));
        } else {
            binding(*self, &role);
            object.items("subjects").for_each(|subject| validate_subject(*self, &subject));
        }
        let Some(live) = live else { return };
        // an update validates all of this twice, and reports each error twice
        object.repeat();
        if !self.is_role() && live["roleRef"] != *role.value {
            let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
            role.invalid_as(shown, "cannot change roleRef");
        }
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

/// Validates which roles a ClusterRole gathers the rules of.
fn aggregation(rule: &Field<'_>) {
    if !rule.is_object() {
        return;
    }
    if rule.list("clusterRoleSelectors").is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        rule.at("clusterRoleSelectors").required(detail);
    }
    for selector in rule.items("clusterRoleSelectors") {
        let before = selector.count();
        checks::selector(&selector);
        if selector.count() > before {
            selector.invalid("invalid label selector.");
        }
    }
}

/// Validates the role of a binding.
fn binding(kind: Rbac, role: &Field<'_>) {
    if role.text("apiGroup") != GROUP {
        role.at("apiGroup").unsupported(&[GROUP]);
    }
    let known: &[&str] = if kind.is_namespaced() { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    role.text_at("kind").one_of(known);
    role.at("name").required_name(NameRule::PathSegment);
}

fn validate_rule(kind: Rbac, rule: &Field<'_>) {
    let empty = |key: &str| rule.list(key).is_empty();
    if empty("verbs") {
        rule.at("verbs").required("verbs must contain at least one value");
    }
    if !empty("nonResourceURLs") {
        let paths = rule.at("nonResourceURLs");
        if kind.is_namespaced() {
            paths.invalid("namespaced rules cannot apply to non-resource URLs");
        }
        if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
            paths.invalid("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if empty(key) {
            rule.at(key).required(format!("resource rules must supply at least one {what}"));
        }
    }
}

fn validate_subject(binding: Rbac, subject: &Field<'_>) {
    let (name, group, kind) = (subject.at("name"), subject.at("apiGroup"), subject.text_at("kind"));
    name.not_empty("");
    match kind.as_text() {
        "ServiceAccount" => {
            name.optional_name(NameRule::Subdomain);
            if !group.as_text().is_empty() {
                group.unsupported(&[""]);
            }
            if !binding.is_namespaced() {
                subject.at("namespace").not_empty("");
            }
        }
        "User" | "Group" if group.as_text() == GROUP => {}
        "User" | "Group" => group.unsupported(&[GROUP]),
        _ => kind.unsupported(&["ServiceAccount", "User", "Group"]),
    }
}
