//! What the controller may do: `deploy/rbac`, written by hand, for the whole cluster or for some namespaces.

use serde_json::{Value, json};

use crate::{Values, installation::label, names::CONTROLLER};

/// The files of `deploy/rbac`: name and content.
pub(crate) const FILES: [(&str, &str); 5] = [
    ("service-account.yaml", include_str!("../../../deploy/rbac/service-account.yaml")),
    ("role.yaml", include_str!("../../../deploy/rbac/role.yaml")),
    ("binding.yaml", include_str!("../../../deploy/rbac/binding.yaml")),
    ("leader-election.yaml", include_str!("../../../deploy/rbac/leader-election.yaml")),
    ("metrics-reader.yaml", include_str!("../../../deploy/rbac/metrics-reader.yaml")),
];

/// Resources that belong to no namespace: no Role can hold a right on them.
const CLUSTER_SCOPED: [&str; 9] = [
    "clusterrolebindings",
    "clusterroles",
    "customresourcedefinitions",
    "gatewayclasses",
    "mutatingwebhookconfigurations",
    "namespaces",
    "subjectaccessreviews",
    "tokenreviews",
    "validatingwebhookconfigurations",
];

/// The account and its rights.
///
/// # Errors
///
/// When a file does not parse, which a test keeps from happening.
pub(crate) fn objects(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut all = Vec::new();
    for (_, text) in FILES {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
        for mut object in documents {
            label(&mut object);
            if object["metadata"].get("namespace").is_some() {
                object["metadata"]["namespace"] = namespace.into();
            }
            for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
                if subject["name"] == CONTROLLER {
                    subject["namespace"] = namespace.into();
                }
            }
            let is_cluster_wide = object["kind"].as_str().is_some_and(|kind| kind.starts_with("ClusterRole"));
            if values.watch_namespaces.is_empty() || !is_cluster_wide {
                all.push(object);
            } else {
                all.extend(namespaces(namespace, values).filter_map(|namespace| within(&object, namespace)));
            }
        }
    }
    Ok(all)
}

/// The watched namespaces and that of the platform, each once.
fn namespaces<'a>(system: &'a str, values: &'a Values) -> impl Iterator<Item = &'a str> {
    let others = values.watch_namespaces.iter().map(String::as_str);
    std::iter::once(system).chain(others.filter(move |namespace| *namespace != system))
}

/// A Role in place of a ClusterRole, and a binding to it in place of a cluster-wide one; none where nothing is left of it.
fn within(object: &Value, namespace: &str) -> Option<Value> {
    let mut object = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().trim_start_matches("Cluster").to_owned();
    object["kind"] = kind.into();
    object["metadata"]["namespace"] = namespace.into();
    if object.get("roleRef").is_some() {
        object["roleRef"]["kind"] = "Role".into();
    }
    if let Some(rules) = object.get_mut("rules").and_then(Value::as_array_mut) {
        for rule in &mut *rules {
            if let Some(resources) = rule.get_mut("resources").and_then(Value::as_array_mut) {
                resources.retain(|resource| {
                    let resource = resource.as_str().unwrap_or_default();
                    !CLUSTER_SCOPED.contains(&resource.split('/').next().unwrap_or_default())
                });
            }
        }
        rules.retain(|rule| rule["resources"].as_array().is_some_and(|resources| !resources.is_empty()));
        if rules.is_empty() {
            return None;
        }
    }
    Some(object)
}

/// The kustomization of `deploy/rbac`.
pub(crate) fn kustomization() -> Value {
    json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": FILES.map(|(name, _)| name),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_rights_is_installed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "kustomization.yaml")
            .collect();
        files.sort();
        let mut known = FILES.map(|(name, _)| name);
        known.sort_unstable();
        assert_eq!(files, known);
    }

    #[test]
    fn rights_in_namespaces_are_roles_in_each_and_none_on_what_belongs_to_the_cluster() {
        let values =
            Values { watch_namespaces: vec!["a".to_owned(), "kserve".to_owned()], ..Values::default() };
        let objects = objects("kserve", &values).unwrap();
        assert!(objects.iter().all(|object| object["metadata"]["namespace"].is_string()), "{objects:#?}");
        for namespace in ["a", "kserve"] {
            let role = objects.iter().find(|object| {
                object["kind"] == "Role"
                    && object["metadata"]["namespace"] == namespace
                    && object["metadata"]["name"] == "kserve-llmisvc-manager-role"
            });
            let rules = role.unwrap()["rules"].to_string();
            assert!(rules.contains("deployments") && !rules.contains("clusterrolebindings"), "{rules}");
        }
    }
}
