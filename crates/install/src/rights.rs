//! What the controller may do, written by hand: `deploy/rbac` for the whole cluster, `deploy/rbac-namespaced` for some
//! namespaces.

use longboat_api::names::DEFAULT_SYSTEM_NAMESPACE;
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

/// Rights in the platform's namespace, for a controller that keeps to some namespaces.
const PLATFORM: &str = include_str!("../../../deploy/rbac-namespaced/platform/role.yaml");
/// Rights in each namespace that such a controller looks at.
const WATCHED: &str = include_str!("../../../deploy/rbac-namespaced/watched/role.yaml");

/// The account and its rights.
///
/// # Errors
///
/// When a file does not parse, which a test keeps from happening.
pub(crate) fn objects(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut all = Vec::new();
    let narrow = !values.watch_namespaces.is_empty();
    for (_, text) in FILES {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
        let is_wide =
            |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("ClusterRole"));
        all.extend(documents.into_iter().filter(|object| !(narrow && is_wide(object))));
    }
    if narrow {
        all.extend(serde_saphyr::from_multiple::<Value>(PLATFORM)?);
        for watched in &values.watch_namespaces {
            for mut object in serde_saphyr::from_multiple::<Value>(WATCHED)? {
                object["metadata"]["namespace"] = watched.as_str().into();
                all.push(object);
            }
        }
    }
    for object in &mut all {
        label(object);
        // What the files leave in the default namespace of the platform.
        if object["metadata"]["namespace"] == DEFAULT_SYSTEM_NAMESPACE {
            object["metadata"]["namespace"] = namespace.into();
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            if subject["name"] == CONTROLLER {
                subject["namespace"] = namespace.into();
            }
        }
    }
    Ok(all)
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
    fn rights_in_namespaces_are_roles_in_each_and_nothing_for_the_whole_cluster() {
        let values = Values { watch_namespaces: vec!["a".to_owned(), "b".to_owned()], ..Values::default() };
        let objects = objects("platform", &values).unwrap();
        for (namespace, name) in [
            ("a", "llmisvc-manager-role"),
            ("b", "llmisvc-manager-role"),
            ("platform", "llmisvc-platform-role"),
        ] {
            let role = objects.iter().find(|object| {
                object["kind"] == "Role"
                    && object["metadata"]["namespace"] == namespace
                    && object["metadata"]["name"] == name
            });
            assert!(role.is_some(), "{namespace} {name}: {objects:#?}");
        }
        assert!(objects.iter().all(|object| object["metadata"]["namespace"].is_string()), "{objects:#?}");
        let subjects = objects.iter().filter_map(|object| object["subjects"][0]["namespace"].as_str());
        assert!(subjects.into_iter().all(|namespace| namespace == "platform"), "{objects:#?}");
    }
}
