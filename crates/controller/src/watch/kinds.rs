//! The kinds that are watched: what the table of kinds says about each, and the special rules of some.

use std::fmt::Debug;

use k8s_openapi::{Metadata, api::core::v1, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, Resource};
use longboat_api::{
    labels, names, v1alpha2,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_compose::{ComposeError, Layer, internal_annotations};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{
    Capabilities, Kind, ObjectKey, Peer, kinds,
    types::{
        self, ClusterRoleBinding, ClusterServingRuntime, ConfigMap, EndpointSlice, Gateway,
        HorizontalPodAutoscaler, Secret, Service, ServingRuntime,
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    caches::{Cache, Caches, Change},
    secret_contents::SecretMetadata,
};

/// Types of Secrets that hold no credentials for models. Their contents are not stored.
const SEALED: [&str; 5] = [
    "bootstrap.kubernetes.io/token",
    "helm.sh/release.v1",
    "kubernetes.io/dockercfg",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/service-account-token",
];

/// Selects the EndpointSlices of the shared picker. Those of pods are many, and change often.
const SLICES: &str = "endpointslice.kubernetes.io/managed-by=longboat-picker";

/// A kind that is watched, as described by the [table of kinds](longboat_plan::kinds!).
pub(crate) trait WatchedKind:
    Rules + Resource<DynamicType = ()> + Debug + Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static
{
    const KIND: Kind;
    /// Whether only objects with our label are watched.
    const LABELLED: bool;
    /// Whether the kind is cluster-scoped.
    const OF_CLUSTER: bool;
    /// Which clusters serve the kind.
    const SERVED: Availability;
    /// Creates an object that has only metadata. Set for built-in kinds whose metadata determines which services a change
    /// concerns and how the object is stored. The rest is decoded only when a reconcile reads the object.
    const FROM_METADATA: Option<fn(ObjectMeta) -> Self> = None;

    fn cache(caches: &Caches) -> &Cache<Self>;

    /// The API for the objects of a namespace, or of all.
    fn api(client: &Client, namespace: Option<Namespace<&str>>) -> Api<Self>;

    /// Whether this object is stored as compressed text, because only the reconcile of its own service reads it. A change of
    /// such an object does not contain the old object.
    fn is_compressed(&self) -> bool;
}

/// Which clusters serve a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Availability {
    /// All clusters.
    Always,
    /// Clusters that have this CRD.
    ByCrd(&'static str, Option<Capability>),
    /// Clusters whose Kubernetes version includes the kind. Discovery shows that.
    ByVersion(Option<Capability>),
}

/// The capability for a kind.
pub(crate) type Capability = fn(&mut Capabilities) -> &mut bool;

/// An effect of a change besides those on the services that depend on the object.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The namespace is being deleted, or it is not.
    NamespaceEnds(bool),
    /// The layer of a config or runtime has changed.
    SetLayer(Kind, Option<Result<Layer, ComposeError>>),
    /// The config itself must be reconciled.
    ReconcileConfig,
    /// The platform settings may have changed, if this is the system namespace.
    LoadPlatform,
    /// The contents of the Secret may have changed.
    ForgetSecret,
}

/// The special rules of a kind. Most kinds use these defaults.
pub(crate) trait Rules: Metadata<Ty = ObjectMeta> + Clone {
    /// Whether the watch gets only metadata, and excludes the objects with our label.
    const METADATA_ONLY: bool = false;
    /// The label selector of the objects that are watched, if it is another than that of our label.
    const SELECTOR: Option<&'static str> = None;
    /// Whether the kind is Secret, for which the controller may be limited to some namespaces.
    const OF_SECRETS: bool = false;
    /// Whether services of other namespaces depend on the objects in the system namespace.
    const OF_PLATFORM: bool = false;

    /// Whether this object may be stored as text, if the table of kinds says so for its kind.
    fn may_be_compressed(&self) -> bool {
        true
    }

    /// Whether other objects resemble this one, so that it may serve as a dictionary for their compression. A dictionary
    /// stays in memory as long as the process runs.
    fn is_typical(&self) -> bool {
        !self.concerns().is_empty()
    }

    /// The part of this object that other services depend on, if they do not depend on the whole object.
    fn peer(&self) -> Option<Peer> {
        None
    }

    /// Drops fields that nothing reads, to save memory. Returns whether there were any.
    fn slim(&mut self) -> bool {
        false
    }

    /// Whether a change can matter to any service.
    fn matters(_old: &Self, _new: &Self) -> bool {
        true
    }

    /// Whether this object was created or changed since its status was written.
    fn is_unobserved(&self) -> bool {
        false
    }

    /// The services to enqueue for a change, besides those that depend on the object: its controller, or the service that its labels name.
    /// A child that lost its owner reference still has the labels, and so does a Service whose addresses are in a certificate.
    fn concerns(&self) -> Vec<Key> {
        related_service(self.metadata()).into_iter().collect()
    }

    /// Keys of indexes under which services depend on the object.
    fn aliases(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    /// The effects of a change besides those on the services that depend on the object.
    fn effects(_change: &Change<'_, Self>) -> Vec<Effect> {
        Vec::new()
    }
}

/// The service that controls an object, or that its labels name.
pub(crate) fn related_service(metadata: &ObjectMeta) -> Option<Key> {
    owner(metadata).or_else(|| labelled(metadata, Namespace(metadata.namespace.as_deref()?)))
}

/// The service that controls an object.
fn owner(metadata: &ObjectMeta) -> Option<Key> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| {
        owner.controller == Some(true)
            && owner.kind == "LLMInferenceService"
            && owner.api_version.split('/').next() == Some(v1alpha2::GROUP)
    })?;
    Some(Key::new(Namespace::of(metadata), Name(&owner.name)))
}

/// The service that an object's labels name.
pub(crate) fn labelled(metadata: &ObjectMeta, namespace: Namespace<&str>) -> Option<Key> {
    let is_ours = labels::value(metadata, labels::PART_OF) == Some(labels::PART_OF_VALUE);
    Some(Key::new(namespace, Name(labels::value(metadata, labels::NAME).filter(|_| is_ours)?)))
}

/// The Gateway that a Service's label names.
fn gateway_of(service: &Service) -> Option<&str> {
    labels::value(&service.metadata, labels::GATEWAY_NAME)
}

macro_rules! watched {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt
        ($scope:ident, $stored:ident, $watched:ident, $rules:ident, $($served:tt)+);)*) => {
        $(watched!(@kind types::$kind, $kind, $field, ($scope, $stored, $watched, $rules, $($served)+));)*
    };
    (@kind $type:ty, $kind:ident, $field:ident,
        ($scope:ident, $stored:ident, $watched:ident, $rules:ident, $($served:tt)+)) => {
        impl WatchedKind for $type {
            const KIND: Kind = Kind::$kind;
            const SERVED: Availability = watched!(@served $($served)+);

            fn cache(caches: &Caches) -> &Cache<Self> {
                &caches.$field
            }

            watched!(@watched $watched);
            watched!(@stored $stored);
            watched!(@scope $scope);
        }

        watched!(@rules $rules $type);
    };
    (@served built_in) => { Availability::Always };
    (@served discovered) => { Availability::ByVersion(None) };
    (@served discovered $capability:ident) => { Availability::ByVersion(Some(|all| &mut all.$capability)) };
    (@served $crd:literal) => { Availability::ByCrd($crd, None) };
    (@served $crd:literal $capability:ident) => { Availability::ByCrd($crd, Some(|all| &mut all.$capability)) };
    (@watched all) => { const LABELLED: bool = false; };
    (@watched labelled) => { const LABELLED: bool = true; };
    (@rules ruled $type:ty) => {};
    (@rules plain $type:ty) => { impl Rules for $type {} };
    (@stored compressed) => {
        fn is_compressed(&self) -> bool {
            self.may_be_compressed()
        }
    };
    (@stored metadata_first) => {
        const FROM_METADATA: Option<fn(ObjectMeta) -> Self> = Some(|metadata| Self { metadata, ..Self::default() });

        watched!(@stored compressed);
    };
    (@stored decoded) => {
        fn is_compressed(&self) -> bool {
            false
        }
    };
    (@scope namespaced) => {
        const OF_CLUSTER: bool = false;

        fn api(client: &Client, namespace: Option<Namespace<&str>>) -> Api<Self> {
            match namespace {
                Some(namespace) => Api::namespaced(client.clone(), &namespace),
                None => Api::all(client.clone()),
            }
        }
    };
    (@scope cluster) => {
        const OF_CLUSTER: bool = true;

        fn api(client: &Client, _namespace: Option<Namespace<&str>>) -> Api<Self> {
            Api::all(client.clone())
        }
    };
}

kinds!(all watched);
// The kinds that are reconciled, namespaces, and the Secrets that are not ours: they are in no plan.
watched!(@kind LLMInferenceService, InferenceService, inference_services,
    (namespaced, compressed, all, ruled, "llminferenceservices.serving.kserve.io"));
watched!(@kind LLMInferenceServiceConfig, Config, configs,
    (namespaced, decoded, all, ruled, "llminferenceserviceconfigs.serving.kserve.io"));
watched!(@kind v1::Namespace, Namespace, namespaces, (cluster, decoded, all, ruled, built_in));
watched!(@kind SecretMetadata, Secret, secret_metadata, (namespaced, decoded, all, ruled, built_in));

impl Rules for v1::Namespace {
    fn slim(&mut self) -> bool {
        self.metadata.labels = None;
        self.metadata.annotations = None;
        (self.spec, self.status) = (None, None);
        true
    }

    fn effects(change: &Change<'_, Self>) -> Vec<Effect> {
        let ends = change.new.is_some_and(|new| new.metadata.deletion_timestamp.is_some());
        vec![Effect::NamespaceEnds(ends)]
    }

    fn concerns(&self) -> Vec<Key> {
        // The services in it are deleted too, and their own watch reports that.
        Vec::new()
    }
}

impl Rules for LLMInferenceService {
    fn is_typical(&self) -> bool {
        // Most of a service's text is its status.
        self.status.as_ref().is_some_and(|status| !status.conditions.is_empty())
    }

    fn peer(&self) -> Option<Peer> {
        Some(Peer::of(self))
    }

    fn is_unobserved(&self) -> bool {
        let observed = self.status.as_ref().map(|status| status.observed_generation);
        observed != self.metadata.generation
    }

    fn concerns(&self) -> Vec<Key> {
        vec![Key::of(self)]
    }
}

impl Rules for LLMInferenceServiceConfig {
    const OF_PLATFORM: bool = true;

    fn matters(old: &Self, new: &Self) -> bool {
        // Nothing depends on the status of a config.
        layers_differ(Some(old), Some(new))
            || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
            || old.metadata.finalizers != new.metadata.finalizers
    }

    fn concerns(&self) -> Vec<Key> {
        Vec::new()
    }

    fn effects(change: &Change<'_, Self>) -> Vec<Effect> {
        let mut effects = Vec::new();
        if layers_differ(change.old.as_deref(), change.new) {
            effects.push(Effect::SetLayer(Kind::Config, change.new.map(Layer::new)));
        }
        effects.push(Effect::ReconcileConfig);
        effects
    }
}

/// Whether what [`Layer::new`] reads of a config differs.
fn layers_differ(old: Option<&LLMInferenceServiceConfig>, new: Option<&LLMInferenceServiceConfig>) -> bool {
    old.map(|config| &config.spec) != new.map(|config| &config.spec)
        || old.map(internal_annotations) != new.map(internal_annotations)
}

impl Rules for ConfigMap {
    const OF_PLATFORM: bool = true;

    fn slim(&mut self) -> bool {
        // Every namespace has this ConfigMap.
        self.metadata.name.as_deref() == Some("kube-root-ca.crt") && self.data.take().is_some()
    }

    fn effects(change: &Change<'_, Self>) -> Vec<Effect> {
        let is_platform = *change.key.name == *names::PLATFORM_CONFIG_MAP;
        is_platform.then_some(Effect::LoadPlatform).into_iter().collect()
    }
}

/// Secrets with our label, which hold the certificates of services. The metadata of all other Secrets is watched separately.
impl Rules for Secret {
    const OF_SECRETS: bool = true;

    fn is_typical(&self) -> bool {
        // A private key must not stay in memory longer than its Secret exists.
        false
    }

    fn slim(&mut self) -> bool {
        // In many clusters, Helm's releases make up most of the size of all Secrets.
        let is_sealed = self.type_.as_deref().is_some_and(|type_| SEALED.contains(&type_));
        is_sealed && self.data.take().is_some()
    }
}

impl Rules for SecretMetadata {
    const METADATA_ONLY: bool = true;
    const OF_SECRETS: bool = true;

    fn slim(&mut self) -> bool {
        self.reduce();
        true
    }

    fn concerns(&self) -> Vec<Key> {
        Vec::new()
    }

    fn effects(_change: &Change<'_, Self>) -> Vec<Effect> {
        vec![Effect::ForgetSecret]
    }
}

impl Rules for Service {
    const OF_PLATFORM: bool = true;
    fn may_be_compressed(&self) -> bool {
        // Services of Gateways are looked up by their label, so they stay decoded.
        owner(&self.metadata).is_some() && gateway_of(self).is_none()
    }

    fn aliases(&self) -> Vec<ObjectKey> {
        let own = Key::of(self);
        let gateways = std::iter::once(&*own.name).chain(gateway_of(self));
        gateways
            .map(|name| Key::new(own.namespace.as_deref(), Name(name)).of_kind(Kind::GatewayService))
            .collect()
    }
}

impl Rules for ClusterRoleBinding {
    fn concerns(&self) -> Vec<Key> {
        let subjects = self.subjects.iter().flatten();
        subjects.filter_map(|s| labelled(&self.metadata, Namespace(s.namespace.as_deref()?))).collect()
    }
}

impl Rules for HorizontalPodAutoscaler {
    fn matters(old: &Self, new: &Self) -> bool {
        // The status changes whenever a metric is read, but the conditions do not.
        let says = |object: &Self| object.status.as_ref().and_then(|status| status.conditions.clone());
        old.spec != new.spec
            || old.metadata.labels != new.metadata.labels
            || old.metadata.annotations != new.metadata.annotations
            || old.metadata.owner_references != new.metadata.owner_references
            || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
            || says(old) != says(new)
    }
}

/// Slices of the shared picker. Their labels name the service.
impl Rules for EndpointSlice {
    const SELECTOR: Option<&'static str> = Some(SLICES);
}

impl Rules for Gateway {
    const OF_PLATFORM: bool = true;
}

/// Runtimes differ only in their scope. Services that named one before it existed are enqueued when it appears, because
/// their lookups are recorded.
macro_rules! runtime_rules {
    ($($kind:ident)*) => {
        $(impl Rules for $kind {
            fn matters(old: &Self, new: &Self) -> bool {
                old.spec != new.spec
            }

            fn concerns(&self) -> Vec<Key> {
                Vec::new()
            }

            fn effects(change: &Change<'_, Self>) -> Vec<Effect> {
                if change.old.as_ref().map(|old| &old.spec) == change.new.map(|new| &new.spec) {
                    return Vec::new();
                }
                let layer = change.new.map(|new| Layer::of_runtime(&new.metadata, &new.spec));
                vec![Effect::SetLayer(Kind::$kind, layer)]
            }
        })*
    };
}

runtime_rules!(ServingRuntime ClusterServingRuntime);
