//! The built-in kinds. To add a kind, add one row here. If the kind has defaults or validation beyond its types, add one
//! file beside `lib.rs` as well.

use std::sync::Arc;

use super::{Origin, Resource};
use crate::{
    Autoscaler, Batch, Budget, Claim, Class, Config, ControllerRevision, Definition, Devices, EndpointSlice,
    Endpoints, Event, Ingress, Lease, Namespace, NetworkPolicy, Node, Plain, Pod, PodTemplate, Rbac,
    ReplicationController, ResourceQuota, Service, ServiceAccount, Strategy, Volume, WebhookConfiguration,
    Workload,
};

/// A row of the table of built-in kinds.
#[derive(Debug)]
pub struct BuiltIn {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version served.
    pub version: &'static str,
    /// Path segment.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Subresources, sorted.
    pub subresources: &'static [&'static str],
    /// Verbs.
    pub verbs: Verbs,
    /// Store table, if it is not `group/plural`.
    pub table: Option<&'static str>,
    /// Whether the server maintains `metadata.generation`: 1 at first, then incremented by each change of the spec.
    pub generation: bool,
    /// What the server does with objects of this kind, beyond what it does with all objects.
    pub(crate) strategy: &'static dyn Strategy,
}

/// Sets of verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbs {
    /// All verbs.
    All,
    /// All verbs but deletecollection.
    NoCollection,
    /// Only POST; the server stores nothing.
    Review,
    /// Only get, list and watch.
    ReadOnly,
}

/// All verbs of a stored resource, in the order in which discovery lists them for built-in kinds.
pub(crate) const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

// === impl Verbs ===

impl Verbs {
    /// The names for discovery.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => ALL_VERBS,
            Self::NoCollection => &["create", "delete", "get", "list", "patch", "update", "watch"],
            Self::Review => &["create"],
            Self::ReadOnly => &["get", "list", "watch"],
        }
    }
}

const NS: bool = true;
const CLUSTER: bool = false;
const GEN: bool = true;
const NOGEN: bool = false;

macro_rules! rows {
    ($($group:literal $version:literal $plural:literal $singular:literal $kind:literal $short:expr, $cat:expr, $ns:expr,
       $sub:expr, $verbs:expr, $table:expr, $generation:expr, $strategy:expr;)*) => {
        &[$(BuiltIn {
            group: $group, version: $version, plural: $plural, singular: $singular, kind: $kind, short_names: &$short,
            categories: &$cat, namespaced: $ns, subresources: &$sub, verbs: $verbs, table: $table,
            generation: $generation, strategy: &$strategy,
        }),*]
    };
}

use Verbs::{All, NoCollection, ReadOnly, Review};

/// Every built-in resource, in the order of discovery.
pub static TABLE: &[BuiltIn] = rows! {
    "" "v1" "configmaps" "configmap" "ConfigMap" ["cm"], [], NS, [], All, None, NOGEN, Config::Map;
    "" "v1" "endpoints" "endpoints" "Endpoints" ["ep"], [], NS, [], All, None, NOGEN, Endpoints;
    "" "v1" "events" "event" "Event" ["ev"], [], NS, [], All, Some("events"), NOGEN, Event::Core;
    "" "v1" "limitranges" "limitrange" "LimitRange" ["limits"], [], NS, [], All, None, NOGEN, Plain;
    "" "v1" "namespaces" "namespace" "Namespace" ["ns"], [], CLUSTER, ["finalize", "status"], NoCollection, None, NOGEN, Namespace;
    "" "v1" "nodes" "node" "Node" ["no"], [], CLUSTER, ["proxy", "status"], All, None, NOGEN, Node;
    "" "v1" "persistentvolumeclaims" "persistentvolumeclaim" "PersistentVolumeClaim" ["pvc"], [], NS, ["status"], All,
        None, NOGEN, Claim;
    "" "v1" "persistentvolumes" "persistentvolume" "PersistentVolume" ["pv"], [], CLUSTER, ["status"], All, None, NOGEN, Volume;
    "" "v1" "pods" "pod" "Pod" ["po"], ["all"], NS,
        ["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize", "status"],
        All, None, GEN, Pod;
    "" "v1" "podtemplates" "podtemplate" "PodTemplate" [], [], NS, [], All, None, GEN, PodTemplate;
    "" "v1" "replicationcontrollers" "replicationcontroller" "ReplicationController" ["rc"], ["all"], NS,
        ["scale", "status"], All, None, GEN, ReplicationController;
    "" "v1" "resourcequotas" "resourcequota" "ResourceQuota" ["quota"], [], NS, ["status"], All, None, NOGEN, ResourceQuota;
    "" "v1" "secrets" "secret" "Secret" [], [], NS, [], All, None, NOGEN, Config::Secret;
    "" "v1" "serviceaccounts" "serviceaccount" "ServiceAccount" ["sa"], [], NS, ["token"], All, None, NOGEN, ServiceAccount;
    "" "v1" "services" "service" "Service" ["svc"], ["all"], NS, ["proxy", "status"], All, None, NOGEN, Service;
    "apiregistration.k8s.io" "v1" "apiservices" "apiservice" "APIService" [], ["api-extensions"], CLUSTER, ["status"],
        ReadOnly, None, NOGEN, Plain;
    "apps" "v1" "controllerrevisions" "controllerrevision" "ControllerRevision" [], [], NS, [], All, None, NOGEN, ControllerRevision;
    "apps" "v1" "daemonsets" "daemonset" "DaemonSet" ["ds"], ["all"], NS, ["status"], All, None, GEN, Workload::DaemonSet;
    "apps" "v1" "deployments" "deployment" "Deployment" ["deploy"], ["all"], NS, ["scale", "status"], All, None, GEN, Workload::Deployment;
    "apps" "v1" "replicasets" "replicaset" "ReplicaSet" ["rs"], ["all"], NS, ["scale", "status"], All, None, GEN, Workload::ReplicaSet;
    "apps" "v1" "statefulsets" "statefulset" "StatefulSet" ["sts"], ["all"], NS, ["scale", "status"], All, None, GEN, Workload::StatefulSet;
    "events.k8s.io" "v1" "events" "event" "Event" ["ev"], [], NS, [], All, Some("events"), NOGEN, Event::Regarding;
    "authentication.k8s.io" "v1" "selfsubjectreviews" "selfsubjectreview" "SelfSubjectReview" [], [], CLUSTER, [],
        Review, None, NOGEN, Plain;
    "authentication.k8s.io" "v1" "tokenreviews" "tokenreview" "TokenReview" [], [], CLUSTER, [], Review, None, NOGEN, Plain;
    "authorization.k8s.io" "v1" "localsubjectaccessreviews" "localsubjectaccessreview" "LocalSubjectAccessReview" [], [],
        NS, [], Review, None, NOGEN, Plain;
    "authorization.k8s.io" "v1" "selfsubjectaccessreviews" "selfsubjectaccessreview" "SelfSubjectAccessReview" [], [],
        CLUSTER, [], Review, None, NOGEN, Plain;
    "authorization.k8s.io" "v1" "selfsubjectrulesreviews" "selfsubjectrulesreview" "SelfSubjectRulesReview" [], [],
        CLUSTER, [], Review, None, NOGEN, Plain;
    "authorization.k8s.io" "v1" "subjectaccessreviews" "subjectaccessreview" "SubjectAccessReview" [], [], CLUSTER, [],
        Review, None, NOGEN, Plain;
    "autoscaling" "v2" "horizontalpodautoscalers" "horizontalpodautoscaler" "HorizontalPodAutoscaler" ["hpa"], ["all"],
        NS, ["status"], All, None, NOGEN, Autoscaler::V2;
    "autoscaling" "v1" "horizontalpodautoscalers" "horizontalpodautoscaler" "HorizontalPodAutoscaler" ["hpa"], ["all"],
        NS, ["status"], All, None, NOGEN, Autoscaler::V1;
    "batch" "v1" "cronjobs" "cronjob" "CronJob" ["cj"], ["all"], NS, ["status"], All, None, GEN, Batch::CronJob;
    "batch" "v1" "jobs" "job" "Job" [], ["all"], NS, ["status"], All, None, GEN, Batch::Job;
    "networking.k8s.io" "v1" "ingressclasses" "ingressclass" "IngressClass" [], [], CLUSTER, [], All, None, GEN, Class::Ingress;
    "networking.k8s.io" "v1" "ingresses" "ingress" "Ingress" ["ing"], [], NS, ["status"], All, None, GEN, Ingress;
    "networking.k8s.io" "v1" "networkpolicies" "networkpolicy" "NetworkPolicy" ["netpol"], [], NS, [], All, None, GEN, NetworkPolicy;
    "policy" "v1" "poddisruptionbudgets" "poddisruptionbudget" "PodDisruptionBudget" ["pdb"], [], NS, ["status"], All,
        None, GEN, Budget;
    "rbac.authorization.k8s.io" "v1" "clusterrolebindings" "clusterrolebinding" "ClusterRoleBinding" [], [], CLUSTER, [],
        All, None, NOGEN, Rbac::ClusterRoleBinding;
    "rbac.authorization.k8s.io" "v1" "clusterroles" "clusterrole" "ClusterRole" [], [], CLUSTER, [], All, None, NOGEN, Rbac::ClusterRole;
    "rbac.authorization.k8s.io" "v1" "rolebindings" "rolebinding" "RoleBinding" [], [], NS, [], All, None, NOGEN, Rbac::RoleBinding;
    "rbac.authorization.k8s.io" "v1" "roles" "role" "Role" [], [], NS, [], All, None, NOGEN, Rbac::Role;
    "storage.k8s.io" "v1" "storageclasses" "storageclass" "StorageClass" ["sc"], [], CLUSTER, [], All, None, NOGEN, Class::Storage;
    "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations" "mutatingwebhookconfiguration"
        "MutatingWebhookConfiguration" [], ["api-extensions"], CLUSTER, [], All, None, GEN, WebhookConfiguration;
    "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations" "validatingwebhookconfiguration"
        "ValidatingWebhookConfiguration" [], ["api-extensions"], CLUSTER, [], All, None, GEN, WebhookConfiguration;
    "apiextensions.k8s.io" "v1" "customresourcedefinitions" "customresourcedefinition" "CustomResourceDefinition"
        ["crd", "crds"], ["api-extensions"], CLUSTER, ["status"], All, None, GEN, Definition;
    "scheduling.k8s.io" "v1" "priorityclasses" "priorityclass" "PriorityClass" ["pc"], [], CLUSTER, [], All, None, GEN, Class::Priority;
    "coordination.k8s.io" "v1" "leases" "lease" "Lease" [], [], NS, [], All, None, NOGEN, Lease;
    "discovery.k8s.io" "v1" "endpointslices" "endpointslice" "EndpointSlice" [], [], NS, [], All, None, GEN, EndpointSlice;
    "resource.k8s.io" "v1" "deviceclasses" "deviceclass" "DeviceClass" [], [], CLUSTER, [], All, None, GEN, Devices::Class;
    "resource.k8s.io" "v1" "resourceclaims" "resourceclaim" "ResourceClaim" [], [], NS, ["status"], All, None, NOGEN, Devices::Claim;
    "resource.k8s.io" "v1" "resourceclaimtemplates" "resourceclaimtemplate" "ResourceClaimTemplate" [], [], NS, [], All,
        None, NOGEN, Devices::ClaimTemplate;
};

// === impl BuiltIn ===

impl BuiltIn {
    /// The row as a served resource.
    pub fn resource(&'static self) -> Resource {
        let strings = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            plural: self.plural.to_owned(),
            singular: self.singular.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            short_names: strings(self.short_names),
            categories: strings(self.categories),
            namespaced: self.namespaced,
            verbs: strings(self.verbs.names()),
            table: self.table.map_or_else(|| Arc::from(format!("{}/{}", self.group, self.plural)), Arc::from),
            origin: Origin::BuiltIn(self),
        }
    }
}
