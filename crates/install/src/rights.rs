//! The rights of the controller, which are written by hand: `deploy/rbac` for the whole cluster, `deploy/rbac-namespaced` for
//! some namespaces, `deploy/rbac-secrets` for the Secrets of some namespaces.

use serde_json::{Value, json};

use crate::{Values, metadata::placed};

/// The files of `deploy/rbac`: name and content.
pub(crate) const FILES: [(&str, &str); 6] = [
    ("service-account.yaml", include_str!("../../../deploy/rbac/service-account.yaml")),
    ("role.yaml", include_str!("../../../deploy/rbac/role.yaml")),
    ("secrets.yaml", include_str!("../../../deploy/rbac/secrets.yaml")),
    ("binding.yaml", include_str!("../../../deploy/rbac/binding.yaml")),
    ("leader-election.yaml", include_str!("../../../deploy/rbac/leader-election.yaml")),
    ("metrics-reader.yaml", include_str!("../../../deploy/rbac/metrics-reader.yaml")),
];

/// The rights in the platform's namespace, for a controller that is limited to some namespaces.
const PLATFORM: &str = include_str!("../../../deploy/rbac-namespaced/platform/role.yaml");
/// The rights in each namespace that such a controller watches.
const WATCHED: &str = include_str!("../../../deploy/rbac-namespaced/watched/role.yaml");

/// The binding with the right to the Secrets of the whole cluster.
const ALL_SECRETS: (&str, &str) = ("ClusterRoleBinding", "llmisvc-secrets-rolebinding");
/// In place of [`ALL_SECRETS`]: the right to the Secret with the CA of the webhooks, in the platform's namespace.
const WEBHOOK_CA: &str = include_str!("../../../deploy/rbac-secrets/platform.yaml");
/// In place of [`ALL_SECRETS`]: the right to the Secrets of one namespace.
const SECRETS: &str = include_str!("../../../deploy/rbac-secrets/namespace.yaml");

/// The GatewayClass, and the rights that Gateways need.
pub(crate) const GATEWAY: &str = include_str!("../../../deploy/gateway/gateway.yaml");

/// Returns the service account and its rights, and the GatewayClass if there is one.
///
/// # Errors
///
/// If a file does not parse. A test ensures that all do.
pub(crate) fn objects(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut all = Vec::new();
    let narrow = !values.watch_namespaces.is_empty();
    for (_, text) in FILES {
        let is_wide =
            |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("ClusterRole"));
        let is_all_secrets =
            |object: &Value| object["kind"] == ALL_SECRETS.0 && object["metadata"]["name"] == ALL_SECRETS.1;
        all.extend(placed(text, namespace)?.into_iter().filter(|object| {
            !(narrow && is_wide(object)) && (values.secret_namespaces.is_empty() || !is_all_secrets(object))
        }));
    }
    if narrow {
        all.extend(placed(PLATFORM, namespace)?);
        all.extend(in_each(&values.watch_namespaces, &placed(WATCHED, namespace)?));
    }
    if !values.secret_namespaces.is_empty() {
        // With cert-manager, the controller does not store its own CA.
        if !values.cert_manager {
            all.extend(placed(WEBHOOK_CA, namespace)?);
        }
        all.extend(in_each(&values.secret_namespaces, &placed(SECRETS, namespace)?));
    }
    if values.gateway.enabled {
        all.extend(placed(GATEWAY, namespace)?);
    }
    Ok(all)
}

/// Returns the objects in each of these namespaces.
fn in_each(namespaces: &[String], objects: &[Value]) -> impl Iterator<Item = Value> {
    namespaces.iter().flat_map(move |namespace| {
        objects.iter().cloned().map(move |mut object| {
            object["metadata"]["namespace"] = namespace.as_str().into();
            object
        })
    })
}

/// The kustomization of `deploy/rbac`.
pub(crate) fn kustomization() -> Value {
    json!({"resources": FILES.map(|(name, _)| name)})
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
    fn without_a_right_to_all_secrets_there_are_bindings_in_namespaces() {
        let values = Values { secret_namespaces: vec!["a".to_owned(), "b".to_owned()], ..Values::default() };
        let objects = objects("platform", &values).unwrap();
        let named = |kind: &str, name: &str| {
            let found =
                objects.iter().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
            found
                .map(|object| object["metadata"]["namespace"].as_str().unwrap_or_default())
                .collect::<Vec<_>>()
        };
        assert_eq!(named("ClusterRoleBinding", "llmisvc-secrets-rolebinding"), [""; 0]);
        assert_eq!(named("RoleBinding", "llmisvc-secrets-rolebinding"), ["a", "b"]);
        assert_eq!(named("Role", "llmisvc-webhook-ca-role"), ["platform"]);
        // No other ClusterRoleBinding gives a right to Secrets.
        let bound = objects.iter().filter(|object| object["kind"] == "ClusterRoleBinding");
        for binding in bound {
            let role = objects.iter().find(|object| {
                object["kind"] == "ClusterRole" && object["metadata"]["name"] == binding["roleRef"]["name"]
            });
            let rules = role.unwrap()["rules"].to_string();
            assert!(!rules.contains("secrets"), "{rules}");
        }
    }

    #[test]
    fn rights_in_namespaces_are_roles_in_each_and_nothing_for_the_whole_cluster() {
        let values =
            Values { watch_namespaces: vec!["a".to_owned(), "kserve".to_owned()], ..Values::default() };
        let objects = objects("platform", &values).unwrap();
        for (namespace, name) in [
            ("a", "llmisvc-manager-role"),
            // Also if it is the usual namespace of the platform.
            ("kserve", "llmisvc-manager-role"),
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
