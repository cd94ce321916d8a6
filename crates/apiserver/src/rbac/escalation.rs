//! Prevention of privilege escalation: nobody can grant rights that they do not have.
//!
//! A user may write a role if they have all its rights, or the verb `escalate` for it. A user may write a binding if they
//! have all the rights of its role, or the verb `bind` for the role. Kubernetes: pkg/registry/rbac/validation.

use std::collections::BTreeSet;

use longboat_patch::gofmt;
use serde_json::{Value, json};

use super::{AccessRequest, GROUP, allows, grants_path, rules};
use crate::{
    kinds::Resource,
    request::User,
    status::{ApiError, StatusDetails},
    store::{Key, Store},
};

/// Refuses a role or binding that would grant rights that `user` lacks. Does nothing for objects of other kinds.
pub(crate) fn check(
    store: &Store,
    user: &User,
    resource: &Resource,
    value: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    if resource.group != GROUP || user.is_master() || live.is_some_and(|live| only_releases(value, live)) {
        return Ok(());
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = value["metadata"]["namespace"].as_str().filter(|_| resource.namespaced);
    match resource.plural.as_str() {
        "roles" | "clusterroles" => {
            let escalates = AccessRequest {
                verb: "escalate",
                group: GROUP,
                resource: &resource.plural,
                name,
                namespace,
                ..AccessRequest::default()
            };
            if allows(store, user, &escalates) {
                return Ok(());
            }
            confirm(store, user, namespace, &value["rules"])
                .map_err(|why| ApiError::forbidden(resource.about(name), why))?;
            let gathers = |role: &Value| !role["aggregationRule"].is_null();
            let everything = json!([
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]);
            if (gathers(value) || live.is_some_and(gathers))
                && confirm(store, user, namespace, &everything).is_err()
            {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(ApiError::forbidden(resource.about(name), why));
            }
            Ok(())
        }
        "rolebindings" | "clusterrolebindings" => {
            let role = value["roleRef"]["name"].as_str().unwrap_or_default();
            let (plural, of) = match value["roleRef"]["kind"].as_str() {
                Some("Role") if resource.namespaced => ("roles", namespace.unwrap_or_default()),
                Some("ClusterRole") => ("clusterroles", ""),
                // validation refuses this
                _ => return Ok(()),
            };
            let binds = AccessRequest {
                verb: "bind",
                group: GROUP,
                resource: plural,
                name: role,
                namespace,
                ..AccessRequest::default()
            };
            if allows(store, user, &binds) {
                return Ok(());
            }
            let found = store
                .get(&format!("{GROUP}/{plural}"), &Key::new(of, role))
                .ok_or_else(|| ApiError::not_found(StatusDetails { name: role, ..resource.about(name) }))?;
            confirm(store, user, namespace, &found.value["rules"])
                .map_err(|why| ApiError::forbidden(resource.about(name), why))
        }
        _ => Ok(()),
    }
}

/// Whether a change only releases an object: nothing but owner references and finalizers differ.
fn only_releases(value: &Value, live: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for key in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(key);
            }
        }
        object
    };
    bare(value) == bare(live)
}

/// One right: one verb on one resource of one group (optionally for one object name), or one verb on one path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Right {
    verb: String,
    group: String,
    resource: String,
    /// Empty for all names.
    name: String,
    /// A non-resource path; then every other field but the verb is empty.
    path: Option<String>,
}

/// Returns an error, worded as by kube-apiserver, that lists the missing rights.
fn confirm(store: &Store, user: &User, namespace: Option<&str>, wanted: &Value) -> Result<(), String> {
    let own = rules(store, user, namespace);
    let missing: Vec<Right> = wanted
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(rights)
        .filter(|right| !own.iter().any(|rule| right.is_covered(rule)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(show).collect();
    Err(format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        gofmt::quote(&user.name),
        quoted(&user.groups),
        shown.into_iter().collect::<Vec<_>>().join("\n")
    ))
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Splits a rule into single rights.
fn rights(rule: &Value) -> Vec<Right> {
    let mut found = Vec::new();
    let mut names = texts(rule, "resourceNames");
    if names.is_empty() {
        names.push(String::new());
    }
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            for verb in texts(rule, "verbs") {
                for name in &names {
                    let (group, resource, name) = (group.clone(), resource.clone(), name.clone());
                    found.push(Right { verb: verb.clone(), group, resource, name, path: None });
                }
            }
        }
    }
    for path in texts(rule, "nonResourceURLs") {
        for verb in texts(rule, "verbs") {
            let empty = String::new;
            let path = Some(path.clone());
            found.push(Right { verb, group: empty(), resource: empty(), name: empty(), path });
        }
    }
    found
}

/// Merges the rights that differ only in their verb into one rule.
fn compact(rights: Vec<Right>) -> Vec<(Right, Vec<String>)> {
    let mut rules: Vec<(Right, Vec<String>)> = Vec::new();
    for right in rights {
        let same = |(first, _): &&mut (Right, Vec<String>)| {
            first.path.is_none()
                && right.path.is_none()
                && (&first.group, &first.resource, &first.name)
                    == (&right.group, &right.resource, &right.name)
        };
        match rules.iter_mut().find(same) {
            Some((_, verbs)) if verbs.contains(&right.verb) => {}
            Some((_, verbs)) => verbs.push(right.verb),
            None => {
                let verbs = vec![right.verb.clone()];
                rules.push((right, verbs));
            }
        }
    }
    rules
}

/// Formats a rule as kube-apiserver shows it.
fn show((right, verbs): &(Right, Vec<String>)) -> String {
    let one = |text: &str| quoted(&[text.to_owned()]);
    let mut parts = Vec::new();
    if let Some(path) = &right.path {
        parts.push(format!("NonResourceURLs:{}", one(path)));
    } else {
        parts.push(format!("APIGroups:{}", one(&right.group)));
        parts.push(format!("Resources:{}", one(&right.resource)));
        if !right.name.is_empty() {
            parts.push(format!("ResourceNames:{}", one(&right.name)));
        }
    }
    parts.push(format!("Verbs:{}", quoted(verbs)));
    format!("{{{}}}", parts.join(", "))
}

fn quoted(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| gofmt::quote(text)).collect::<Vec<_>>().join(" "))
}

// === impl Right ===

impl Right {
    /// Whether `rule` grants this right.
    fn is_covered(&self, rule: &Value) -> bool {
        let has = |field: &str, text: &str| {
            rule[field].as_array().into_iter().flatten().any(|listed| listed == "*" || listed == text)
        };
        if !has("verbs", &self.verb) {
            return false;
        }
        if let Some(path) = &self.path {
            return grants_path(rule, path);
        }
        let subresource = self.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        let names = texts(rule, "resourceNames");
        has("apiGroups", &self.group)
            && (has("resources", &self.resource)
                || subresource.is_some_and(|any| texts(rule, "resources").contains(&any)))
            && (names.is_empty() || names.contains(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_covers_is_not_missing() {
        let own = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]});
        let named =
            json!({"verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]});
        let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]});
        let covered = |rule: Value| {
            rights(&rule).iter().all(|right| [&own, &named, &paths].iter().any(|own| right.is_covered(own)))
        };
        let rule = |verbs: &[&str], resource: &str| json!({"verbs": verbs, "apiGroups": [""], "resources": [resource]});
        assert!(covered(rule(&["get", "list"], "pods")));
        assert!(covered(rule(&["get"], "deployments/scale")));
        assert!(!covered(rule(&["get", "delete"], "pods")));
        assert!(!covered(rule(&["get"], "pods/log")));
        assert!(!covered(rule(&["*"], "pods")));
        assert!(!covered(rule(&["get"], "secrets")));
        let mut one = rule(&["delete"], "secrets");
        one["resourceNames"] = json!(["a"]);
        assert!(covered(one.clone()));
        one["resourceNames"] = json!(["a", "b"]);
        assert!(!covered(one));
        assert!(covered(json!({"verbs": ["get"], "nonResourceURLs": ["/logs/x", "/logs/*"]})));
        assert!(!covered(json!({"verbs": ["get"], "nonResourceURLs": ["/*"]})));
    }

    #[test]
    fn missing_rights_are_shown_as_rules() {
        let rule = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        let shown: Vec<String> = compact(rights(&rule)).iter().map(show).collect();
        assert_eq!(
            shown,
            [r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}"#]
        );
    }
}
