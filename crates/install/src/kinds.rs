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

/// All kinds, in the order in which their objects are removed. The webhook configurations go first, so that API servers no
/// longer call the webhooks when the controller goes. Configs and definitions go while the controller can still remove their
/// finalizers. Its rights go last.
pub const REMOVAL: [Kind; 21] = [
    of(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    of(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    of("serving.kserve.io/v1alpha2", "LLMInferenceServiceConfig", "llminferenceserviceconfigs", true),
    of("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    of("gateway.networking.k8s.io/v1", "GatewayClass", "gatewayclasses", false),
    of("apps/v1", "Deployment", "deployments", true),
    of("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
    of("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    of("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules", true),
    of("monitoring.coreos.com/v1", "PodMonitor", "podmonitors", true),
    of("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", true),
    of("cert-manager.io/v1", "Certificate", "certificates", true),
    of("cert-manager.io/v1", "Issuer", "issuers", true),
    of("v1", "Service", "services", true),
    of("v1", "ConfigMap", "configmaps", true),
    of("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    of("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    of("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    of("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    of("v1", "ServiceAccount", "serviceaccounts", true),
    of("v1", "Namespace", "namespaces", false),
];

/// Returns the kind, or `None` if an installation has no such objects.
pub fn kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    REMOVAL.iter().find(|known| known.api_version == api_version && known.kind == kind)
}

const fn of(api_version: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> Kind {
    Kind { api_version, kind, plural, namespaced }
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
