//! Schemas of the built-in kinds, generated from the types of k8s-openapi on first use.

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration, apps::v1 as apps,
        authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling, autoscaling::v2 as autoscaling_v2, batch::v1 as batch,
        coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
        networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource,
        scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// The prefix of references to definitions.
pub const DEFINITIONS: &str = "#/$defs/";

/// The definitions that a kind needs, by type name, and the type name of the kind itself.
pub struct Definitions {
    /// The type name of the kind.
    pub root: String,
    /// The definitions by type name.
    pub all: Map<String, Value>,
}

fn of<T: JsonSchema>() -> Definitions {
    let mut generator = SchemaGenerator::default();
    let _ = generator.subschema_for::<T>();
    Definitions { root: T::schema_name().into_owned(), all: generator.take_definitions(true) }
}

macro_rules! kinds {
    ($($group:literal $version:literal $module:ident { $($kind:ident)+ })+) => {
        /// Returns the definitions of a built-in kind.
        pub fn definitions(group: &str, version: &str, kind: &str) -> Option<Definitions> {
            match (group, version, kind) {
                $($(($group, $version, stringify!($kind)) => Some(of::<$module::$kind>()),)+)+
                _ => None,
            }
        }
    };
}

kinds! {
    "" "v1" core {
        ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolumeClaim PersistentVolume Pod PodTemplate
        ReplicationController ResourceQuota Secret ServiceAccount Service Binding
    }
    "admissionregistration.k8s.io" "v1" admissionregistration {
        MutatingWebhookConfiguration ValidatingWebhookConfiguration
    }
    "apiextensions.k8s.io" "v1" apiextensions { CustomResourceDefinition }
    "apiregistration.k8s.io" "v1" apiregistration { APIService }
    "apps" "v1" apps { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    "authentication.k8s.io" "v1" authentication { SelfSubjectReview TokenReview TokenRequest }
    "authorization.k8s.io" "v1" authorization {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    "autoscaling" "v1" autoscaling { HorizontalPodAutoscaler Scale }
    "autoscaling" "v2" autoscaling_v2 { HorizontalPodAutoscaler }
    "batch" "v1" batch { CronJob Job }
    "coordination.k8s.io" "v1" coordination { Lease }
    "discovery.k8s.io" "v1" discovery { EndpointSlice }
    "events.k8s.io" "v1" events { Event }
    "networking.k8s.io" "v1" networking { Ingress IngressClass NetworkPolicy }
    "policy" "v1" policy { Eviction PodDisruptionBudget }
    "rbac.authorization.k8s.io" "v1" rbac { ClusterRole ClusterRoleBinding Role RoleBinding }
    "resource.k8s.io" "v1" resource { DeviceClass ResourceClaim ResourceClaimTemplate }
    "scheduling.k8s.io" "v1" scheduling { PriorityClass }
    "storage.k8s.io" "v1" storage { StorageClass }
}

#[cfg(test)]
mod tests {
    use longboat_types::type_of_kind;

    use crate::kinds::builtin::TABLE;

    #[test]
    fn every_built_in_resource_has_a_schema_and_a_type() {
        for row in TABLE {
            // Clients can only read APIServices.
            let resource = row.resource();
            let has_type = type_of_kind(&resource.api_version(), row.kind).is_some();
            assert_eq!(has_type, row.kind != "APIService", "{} {}", resource.api_version(), row.kind);
            assert!(
                super::definitions(row.group, row.version, row.kind).is_some(),
                "{}/{} {}",
                row.group,
                row.version,
                row.kind
            );
        }
    }
}
