//! The kinds of an installation's objects, and their API paths.

/// A kind of an installation's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group and version.
    pub api_version: &'static str,
    /// The name of the kind.
    pub kind: &'static str,
    /// The plural name in API paths.
    pub plural: &'static str,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

// === impl Kind ===

impl Kind {
    /// Creates a kind.
    pub const fn new(
        api_version: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self { api_version, kind, plural, namespaced }
    }
}

/// All kinds, in the order in which their objects are removed. The webhook configurations go first, so that API servers no
/// longer call the webhooks when the controller goes. Configs and definitions go while the controller can still remove their
/// finalizers. Its rights go last.
pub const REMOVAL: [Kind; 21] = [
    Kind::new(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    Kind::new(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    Kind::new("serving.kserve.io/v1alpha2", "LLMInferenceServiceConfig", "llminferenceserviceconfigs", true),
    Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    Kind::new("gateway.networking.k8s.io/v1", "GatewayClass", "gatewayclasses", false),
    Kind::new("apps/v1", "Deployment", "deployments", true),
    Kind::new("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
    Kind::new("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    Kind::new("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules", true),
    Kind::new("monitoring.coreos.com/v1", "PodMonitor", "podmonitors", true),
    Kind::new("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", true),
    Kind::new("cert-manager.io/v1", "Certificate", "certificates", true),
    Kind::new("cert-manager.io/v1", "Issuer", "issuers", true),
    Kind::new("v1", "Service", "services", true),
    Kind::new("v1", "ConfigMap", "configmaps", true),
    Kind::new("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    Kind::new("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    Kind::new("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    Kind::new("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    Kind::new("v1", "ServiceAccount", "serviceaccounts", true),
    Kind::new("v1", "Namespace", "namespaces", false),
];

/// Returns the kind, or `None` if an installation has no such objects.
pub fn kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    REMOVAL.iter().find(|known| known.api_version == api_version && known.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gateway, Installation, Monitoring, SharedPicker, Values};

    #[test]
    fn every_object_of_an_installation_has_a_kind_that_can_be_addressed() {
        let narrow =
            Values { watch_namespaces: vec!["a".to_owned()], cert_manager: true, ..Values::default() };
        let watched =
            Values { monitoring: Monitoring { enabled: true, ..Monitoring::default() }, ..Values::default() };
        let gateways = Values { gateway: Gateway { enabled: true }, ..Values::default() };
        let shared =
            Values { shared_picker: SharedPicker { enabled: true, replicas: 3 }, ..Values::default() };
        for values in [Values::default(), narrow, watched, gateways, shared] {
            for object in Installation::new("kserve", &values).unwrap().objects() {
                let (api_version, name) = (&object["apiVersion"], &object["kind"]);
                let kind = kind(api_version.as_str().unwrap(), name.as_str().unwrap());
                let kind = kind.unwrap_or_else(|| panic!("{api_version} {name}"));
                assert_eq!(kind.namespaced, object["metadata"].get("namespace").is_some(), "{name}");
                assert_eq!(object["metadata"]["labels"]["longboat.dev/installation"], "longboat", "{name}");
            }
        }
    }
}
