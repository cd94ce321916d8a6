//! Finds the table's type for an `apiVersion` and `kind`.

use super::{TypeDef, type_def};

/// Groups of custom resources, and their names in the table.
const CUSTOM: [(&str, &str); 6] = [
    ("gateway.networking.k8s.io", "gateway"),
    ("inference.networking.k8s.io", "inference"),
    ("inference.networking.x-k8s.io", "inference"),
    ("keda.sh", "keda"),
    ("leaderworkerset.x-k8s.io", "leaderworkerset"),
    ("serving.kserve.io", "serving"),
];

/// Returns the table's type of a kind, or `None` for kinds that the table does not have.
///
/// `rbac.authorization.k8s.io/v1` Role is `rbac.v1.Role`: the table names a group by its first label.
pub fn type_of_object(api_version: &str, kind: &str) -> Option<&'static TypeDef> {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = if let Some((_, package)) = CUSTOM.iter().find(|(name, _)| *name == group) {
        package
    } else {
        // Another domain is that of a custom resource, which may have the first label of a built-in group: `apps.example.com`.
        let (label, domain) = group.split_once('.').unwrap_or((group, ""));
        matches!(domain, "" | "k8s.io" | "authorization.k8s.io").then_some(label)?
    };
    type_def(&format!("{package}.{version}.{kind}"))
}

/// Returns the table's type of a built-in kind, or `None` for custom resources and kinds that the table does not have.
pub fn type_of_kind(api_version: &str, kind: &str) -> Option<&'static TypeDef> {
    type_of_object(api_version, kind).filter(|def| def.built_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_group() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", Some("core.v1.Pod")),
            ("apps/v1", "Deployment", Some("apps.v1.Deployment")),
            ("rbac.authorization.k8s.io/v1", "Role", Some("rbac.v1.Role")),
            ("autoscaling/v2", "HorizontalPodAutoscaler", Some("autoscaling.v2.HorizontalPodAutoscaler")),
            ("discovery.k8s.io/v1", "EndpointSlice", Some("discovery.v1.EndpointSlice")),
            ("coordination.k8s.io/v1", "Lease", Some("coordination.v1.Lease")),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                Some("apiextensions.v1.CustomResourceDefinition"),
            ),
            ("autoscaling/v1", "Scale", Some("autoscaling.v1.Scale")),
            ("gateway.networking.k8s.io/v1", "HTTPRoute", None),
            ("apps/v2", "Deployment", None),
            ("apps.example.com/v1", "Deployment", None),
        ] {
            assert_eq!(type_of_kind(api_version, kind).map(|def| def.name), expected, "{api_version} {kind}");
        }
        for (api_version, kind, expected) in [
            ("gateway.networking.k8s.io/v1", "HTTPRoute", Some("gateway.v1.HTTPRoute")),
            (
                "inference.networking.x-k8s.io/v1alpha2",
                "InferencePool",
                Some("inference.v1alpha2.InferencePool"),
            ),
            ("v1", "Pod", Some("core.v1.Pod")),
            ("gateway.example.com/v1", "HTTPRoute", None),
        ] {
            assert_eq!(
                type_of_object(api_version, kind).map(|def| def.name),
                expected,
                "{api_version} {kind}"
            );
        }
    }
}
