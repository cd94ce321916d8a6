//! Finds the table's type for an `apiVersion` and `kind`.

use super::{TypeDef, type_def};

/// Returns the table's type of a built-in kind, or `None` for kinds of other groups and kinds that the table does not have.
///
/// `rbac.authorization.k8s.io/v1` Role is `rbac.v1.Role`: the table names a group by its first label.
pub fn type_of_kind(api_version: &str, kind: &str) -> Option<&'static TypeDef> {
    let package = match api_version.split_once('/') {
        None => format!("core.{api_version}"),
        Some((group, version)) => {
            let (label, domain) = group.split_once('.').unwrap_or((group, ""));
            if !matches!(domain, "" | "k8s.io" | "authorization.k8s.io") {
                return None;
            }
            format!("{label}.{version}")
        }
    };
    type_def(&format!("{package}.{kind}"))
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
        ] {
            assert_eq!(type_of_kind(api_version, kind).map(|def| def.name), expected, "{api_version} {kind}");
        }
    }
}
