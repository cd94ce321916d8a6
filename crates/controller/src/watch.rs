//! Watches: from the API server into the caches, and from there to the services that depend on a change.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use futures::StreamExt;
use k8s_openapi::{
    Metadata,
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Pod, PodStatus, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
        resource::v1::ResourceClaimTemplate,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use longboat_api::{
    foreign::{
        gateway::Gateway, gatewayclass::GatewayClass, httproute::HTTPRoute, inferencepool::InferencePool,
        inferencepool_x, leaderworkerset::LeaderWorkerSet, scaledobject::ScaledObject,
    },
    labels, names, v1alpha2,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_plan::Peer;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use crate::{
    announce::announce,
    args::Args,
    cache::{Cache, Change},
    config,
    context::{Caches, Context},
    downloads,
    error::has_code,
    key::{Key, Kind, ObjectKey},
    received::Received,
    secrets::SecretMetadata,
};

/// Annotates Services with the Gateway they belong to.
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
/// Types of Secrets that hold no credentials for models. Their contents are not kept.
const SEALED: [&str; 5] = [
    "bootstrap.kubernetes.io/token",
    "helm.sh/release.v1",
    "kubernetes.io/dockercfg",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/service-account-token",
];
/// Objects per page of a list. All kinds are listed at the same time when the process starts, and their pages are the peak of its
/// memory.
const PAGE: u32 = 100;

/// A kind that is watched.
pub(crate) trait Watched:
    Resource<DynamicType = ()>
    + Metadata<Ty = ObjectMeta>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + PartialEq
    + Send
    + Sync
    + 'static
{
    const KIND: Kind;
    /// Whether only objects that carry our label are watched.
    const LABELLED: bool;
    /// Whether API servers are asked for the metadata only, and those that carry our label are left out.
    const METADATA_ONLY: bool = false;
    /// Whether its objects are Secrets, which a controller may be confined to some namespaces for.
    const OF_SECRETS: bool = false;
    /// Whether its objects live in no namespace.
    const OF_CLUSTER: bool;
    /// Whether services of other namespaces depend on those of the platform's namespace.
    const OF_PLATFORM: bool = false;
    /// Makes an object with metadata only. It is set for built-in kinds whose metadata decide which services a change concerns and how
    /// the object is stored: the rest is decoded only when a reconcile reads the object.
    const FROM_METADATA: Option<fn(ObjectMeta) -> Self> = None;

    fn cache(caches: &Caches) -> &Cache<Self>;

    /// The API of the objects of a namespace, or of all.
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self>;

    /// The same, but an object that cannot be decoded does not fail the whole response.
    fn guarded_api(client: &Client, namespace: Option<&str>) -> Api<Received<Self>>;

    /// Whether it is stored as compressed text, because only the reconcile of its own service reads it. A change event of such an
    /// object does not contain the old object.
    fn is_packed(&self) -> bool;

    /// Whether other objects resemble it, so that it may serve as the dictionary for compressing them. A dictionary stays in memory as
    /// long as the process runs.
    fn is_typical(&self) -> bool {
        !self.concerns().is_empty()
    }

    /// The part of it that other services depend on, where they do not depend on the whole.
    fn peer(&self) -> Option<Peer> {
        None
    }

    /// Drops fields that nothing reads, to save memory. Returns whether there were any.
    fn slim(&mut self) -> bool {
        false
    }

    /// Whether a change can make a difference.
    fn matters(_old: &Self, _new: &Self) -> bool {
        true
    }

    /// Whether it was created or changed by somebody since its status was written.
    fn is_unobserved(&self) -> bool {
        false
    }

    /// Services that a change concerns whether or not they depend on the object.
    fn concerns(&self) -> Vec<Key> {
        owner(self.metadata()).into_iter().collect()
    }

    /// Other names under which services depend on the object.
    fn aliases(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    /// What else follows from a change.
    fn changed(_context: &Context, _key: &Key, _change: &Change<'_, Self>) {}
}

/// The service that controls an object.
fn owner(metadata: &ObjectMeta) -> Option<Key> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| {
        owner.controller == Some(true)
            && owner.kind == "LLMInferenceService"
            && owner.api_version.split('/').next() == Some(v1alpha2::GROUP)
    })?;
    Some(Key::new(metadata.namespace.clone().unwrap_or_default(), &owner.name))
}

/// The service that an object is labelled with.
pub(crate) fn labelled(metadata: &ObjectMeta, namespace: &str) -> Option<Key> {
    Some(Key::new(namespace, metadata.labels.as_ref()?.get(labels::NAME)?))
}

/// The Gateway that a Service is labelled with.
fn gateway_of(service: &Service) -> Option<&str> {
    service.metadata.labels.as_ref()?.get(GATEWAY_NAME).map(String::as_str)
}

macro_rules! watched {
    ($($kind:ty => $variant:ident, $field:ident, $scope:ident, $form:ident, labelled: $labelled:literal $({ $($more:item)* })?;)*) => {
        $(impl Watched for $kind {
            const KIND: Kind = Kind::$variant;
            const LABELLED: bool = $labelled;

            fn cache(caches: &Caches) -> &Cache<Self> {
                &caches.$field
            }

            watched!(@api $scope);
            watched!(@form $form);

            $($($more)*)?
        })*
    };
    (@form packed) => {
        fn is_packed(&self) -> bool {
            true
        }
    };
    (@form metadata_first) => {
        const FROM_METADATA: Option<fn(ObjectMeta) -> Self> = Some(|metadata| Self { metadata, ..Self::default() });

        watched!(@form packed);
    };
    (@form whole) => {
        fn is_packed(&self) -> bool {
            false
        }
    };
    // The kind defines it itself.
    (@form either) => {};
    (@api namespaced) => {
        const OF_CLUSTER: bool = false;

        fn api(client: &Client, namespace: Option<&str>) -> Api<Self> {
            match namespace {
                Some(namespace) => Api::namespaced(client.clone(), namespace),
                None => Api::all(client.clone()),
            }
        }

        fn guarded_api(client: &Client, namespace: Option<&str>) -> Api<Received<Self>> {
            match namespace {
                Some(namespace) => Api::namespaced(client.clone(), namespace),
                None => Api::all(client.clone()),
            }
        }
    };
    (@api cluster) => {
        const OF_CLUSTER: bool = true;

        fn api(client: &Client, _namespace: Option<&str>) -> Api<Self> {
            Api::all(client.clone())
        }

        fn guarded_api(client: &Client, _namespace: Option<&str>) -> Api<Received<Self>> {
            Api::all(client.clone())
        }
    };
}

watched! {
    LLMInferenceService => InferenceService, inference_services, namespaced, packed, labelled: false {
        fn is_typical(&self) -> bool {
            // Most of a service is its status.
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

        fn changed(context: &Context, key: &Key, change: &Change<'_, Self>) {
            // A service uses its configs until it is deleted, also while it is being finalized. And a status may have been written
            // although its response was lost.
            let [before, now] = &change.peers;
            config::enqueue_used(context, &key.namespace, before.as_deref(), now.as_deref());
        }
    };
    LLMInferenceServiceConfig => Config, configs, namespaced, whole, labelled: false {
        const OF_PLATFORM: bool = true;

        fn matters(old: &Self, new: &Self) -> bool {
            // Nothing depends on the status of a config.
            old.spec != new.spec
                || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
                || old.metadata.finalizers != new.metadata.finalizers
        }

        fn concerns(&self) -> Vec<Key> {
            Vec::new()
        }

        fn changed(context: &Context, key: &Key, change: &Change<'_, Self>) {
            if change.old.as_ref().map(|old| &old.spec) != change.new.map(|new| &new.spec) {
                context.set_layer(key, change.new);
            }
            context.configs.add(key.clone());
        }
    };
    ConfigMap => ConfigMap, config_maps, namespaced, whole, labelled: false {
        const OF_PLATFORM: bool = true;

        fn slim(&mut self) -> bool {
            // Every namespace has one.
            self.metadata.name.as_deref() == Some("kube-root-ca.crt") && self.data.take().is_some()
        }

        fn changed(context: &Context, key: &Key, _change: &Change<'_, Self>) {
            let platform = *key.namespace == context.args.system_namespace && *key.name == *names::PLATFORM_CONFIG_MAP;
            if platform && context.load_platform() {
                context.enqueue_all();
            }
        }
    };
    // The certificates of services. What others keep in Secrets is watched by its metadata.
    Secret => Secret, secrets, namespaced, packed, labelled: true {
        const OF_SECRETS: bool = true;

        fn is_typical(&self) -> bool {
            // A key must not outlive its Secret.
            false
        }

        fn slim(&mut self) -> bool {
            // In many clusters Helm's releases are most of the size of all Secrets.
            let is_sealed = self.type_.as_deref().is_some_and(|type_| SEALED.contains(&type_));
            is_sealed && self.data.take().is_some()
        }
    };
    SecretMetadata => Secret, secret_metadata, namespaced, whole, labelled: false {
        const METADATA_ONLY: bool = true;
        const OF_SECRETS: bool = true;

        fn slim(&mut self) -> bool {
            self.reduce();
            true
        }

        fn concerns(&self) -> Vec<Key> {
            Vec::new()
        }

        fn changed(context: &Context, key: &Key, _change: &Change<'_, Self>) {
            context.secret_contents.forget(key);
        }
    };
    ServiceAccount => ServiceAccount, service_accounts, namespaced, metadata_first, labelled: false;
    Service => Service, services, namespaced, either, labelled: false {
        const OF_PLATFORM: bool = true;
        const FROM_METADATA: Option<fn(ObjectMeta) -> Self> = Some(|metadata| Self { metadata, ..Self::default() });

        fn is_packed(&self) -> bool {
            // Services of Gateways are found by their label.
            owner(&self.metadata).is_some() && gateway_of(self).is_none()
        }

        fn aliases(&self) -> Vec<ObjectKey> {
            let own = Key::of(self);
            let gateways = std::iter::once(&*own.name).chain(gateway_of(self));
            gateways.map(|name| Key::new(&own.namespace, name).of_kind(Kind::GatewayService)).collect()
        }
    };
    Deployment => Deployment, deployments, namespaced, metadata_first, labelled: true;
    Pod => Pod, pods, namespaced, whole, labelled: true {
        fn slim(&mut self) -> bool {
            // Certificates need the labels and the addresses only, downloads what is kept of them. Pods are never written.
            let (spec, conditions) = downloads::kept(self);
            self.spec = spec;
            self.metadata.annotations = None;
            self.status = self.status.take().map(|status| PodStatus {
                pod_ip: status.pod_ip,
                pod_ips: status.pod_ips,
                conditions,
                ..PodStatus::default()
            });
            true
        }

        fn matters(old: &Self, new: &Self) -> bool {
            let ips = |pod: &Self| pod.status.as_ref().map(|s| (s.pod_ip.clone(), s.pod_ips.clone()));
            old.metadata.labels != new.metadata.labels || ips(old) != ips(new)
        }

        fn concerns(&self) -> Vec<Key> {
            labelled(&self.metadata, self.metadata.namespace.as_deref().unwrap_or_default()).into_iter().collect()
        }
    };
    Role => Role, roles, namespaced, metadata_first, labelled: true;
    RoleBinding => RoleBinding, role_bindings, namespaced, metadata_first, labelled: true;
    ClusterRoleBinding => ClusterRoleBinding, cluster_role_bindings, cluster, packed, labelled: true {
        fn concerns(&self) -> Vec<Key> {
            let subjects = self.subjects.iter().flatten();
            subjects.filter_map(|s| labelled(&self.metadata, s.namespace.as_deref()?)).collect()
        }
    };
    ResourceClaimTemplate => ResourceClaimTemplate, resource_claim_templates, namespaced, packed, labelled: false;
    LeaderWorkerSet => LeaderWorkerSet, leader_worker_sets, namespaced, packed, labelled: true;
    HorizontalPodAutoscaler => HorizontalPodAutoscaler, horizontal_pod_autoscalers, namespaced, whole, labelled: true {
        fn matters(old: &Self, new: &Self) -> bool {
            // The status changes with every metric that is read; the conditions do not.
            let says = |object: &Self| object.status.as_ref().and_then(|status| status.conditions.clone());
            old.spec != new.spec || old.metadata.labels != new.metadata.labels
                || old.metadata.annotations != new.metadata.annotations
                || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp || says(old) != says(new)
        }
    };
    ScaledObject => ScaledObject, scaled_objects, namespaced, packed, labelled: true;
    HTTPRoute => HttpRoute, http_routes, namespaced, packed, labelled: false;
    InferencePool => InferencePool, inference_pools, namespaced, packed, labelled: false;
    inferencepool_x::InferencePool => InferencePoolX, inference_pools_x, namespaced, packed, labelled: false;
    Gateway => Gateway, gateways, namespaced, whole, labelled: false {
        const OF_PLATFORM: bool = true;
    };
    GatewayClass => GatewayClass, gateway_classes, cluster, whole, labelled: false;
}

/// Where a kind is watched: in the whole cluster (`None`), or in each of these namespaces. A controller that is confined to namespaces
/// does not watch cluster-scoped kinds.
pub(crate) fn scopes<K: Watched>(args: &Args) -> Vec<Option<String>> {
    if args.namespaces.is_empty() {
        if K::OF_SECRETS && !args.secret_namespaces.is_empty() {
            return args.secret_namespaces.iter().cloned().map(Some).collect();
        }
        return vec![None];
    }
    let mut all: BTreeSet<&String> =
        if K::OF_CLUSTER { BTreeSet::new() } else { args.namespaces.iter().collect() };
    if K::OF_PLATFORM {
        all.insert(&args.system_namespace);
    }
    all.into_iter().cloned().map(Some).collect()
}

/// Which objects of a kind are watched, where not all are.
fn selector<K: Watched>() -> Option<String> {
    let operator = match (K::LABELLED, K::METADATA_ONLY) {
        (true, _) => "=",
        (false, true) => "!=",
        (false, false) => return None,
    };
    Some(format!("{}{operator}{}", labels::PART_OF, labels::PART_OF_VALUE))
}

/// How the first list of a watch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstList {
    /// The cache is filled.
    Complete,
    /// The API server does not serve the kind, or denies access. The watch is retried.
    Unavailable,
}

/// Watches a kind until cancelled. Calls `first` with the result of the first list, and again when a kind that was unavailable becomes
/// available.
pub(crate) async fn watch<K: Watched>(
    context: Arc<Context>,
    namespace: Option<String>,
    cancel: CancellationToken,
    first: impl Fn(FirstList) + Send,
) {
    // An object that cannot be decoded must not end the watch for all others.
    let api = K::guarded_api(&context.client, namespace.as_deref());
    let mut config = watcher::Config::default().page_size(PAGE);
    if let Some(selector) = selector::<K>() {
        config = config.labels(&selector);
    }
    let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
    let mut present: BTreeSet<Key> = BTreeSet::new();
    let mut state = None;
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Ok(Event::Init)) => present.clear(),
            Some(Ok(Event::InitApply(object))) => present.extend(store(&context, &object)),
            Some(Ok(Event::InitDone)) => {
                forget_others::<K>(&context, namespace.as_deref(), &std::mem::take(&mut present));
                if state != Some(FirstList::Complete) {
                    state = Some(FirstList::Complete);
                    first(FirstList::Complete);
                }
            }
            Some(Ok(Event::Apply(object))) => {
                store(&context, &object);
            }
            Some(Ok(Event::Delete(object))) => {
                if let Some(change) = K::cache(&context.caches).remove(&object.metadata) {
                    announce(&context, &change);
                }
            }
            Some(Err(error)) => {
                if state.is_none() && is_forbidden(&error) {
                    tracing::warn!(
                        kind = %K::kind(&()), namespace = namespace.as_deref(), %error,
                        "No right to list and watch these: they count as absent until there is."
                    );
                } else {
                    tracing::debug!(kind = %K::kind(&()), %error, "The watch is interrupted.");
                }
                if state.is_none() && is_unavailable(&error) {
                    state = Some(FirstList::Unavailable);
                    first(FirstList::Unavailable);
                }
            }
        }
    }
}

fn is_unavailable(error: &watcher::Error) -> bool {
    is_forbidden(error) || refused_with(error, 404)
}

fn is_forbidden(error: &watcher::Error) -> bool {
    refused_with(error, 403)
}

fn refused_with(error: &watcher::Error, code: u16) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            has_code(error, code)
        }
        _ => false,
    }
}

/// Stores an object that exists and announces the change. Returns its key, unless it is a change that cannot be decoded.
fn store<K: Watched>(context: &Context, object: &Received<K>) -> Option<Key> {
    let key = Key::of_metadata(&object.metadata);
    let cache = K::cache(&context.caches);
    if cache.knows(&object.metadata) {
        return Some(key);
    }
    let mut read = match metadata_only(object).map_or_else(|| object.read(), Ok) {
        Ok(read) => read,
        Err(error) => {
            tracing::warn!(kind = %K::kind(&()), object = %key, %error, "An object cannot be read and is left out.");
            return None;
        }
    };
    let change = if read.slim() { cache.set(&read) } else { cache.set_read(&read, object.text()) };
    if let Some(change) = change {
        announce(context, &change);
    }
    Some(key)
}

/// The object with metadata only, if that is enough.
fn metadata_only<K: Watched>(object: &Received<K>) -> Option<K> {
    let make = K::FROM_METADATA?;
    Some(make(object.read_metadata().ok()?)).filter(K::is_packed)
}

/// Removes the objects that no longer exist from the cache.
pub(crate) fn forget_others<K: Watched>(context: &Context, namespace: Option<&str>, present: &BTreeSet<Key>) {
    for change in &K::cache(&context.caches).retain(namespace, present) {
        announce(context, change);
    }
}

/// Fills the cache of a kind once, without watching it.
pub(crate) async fn list<K: Watched>(context: &Context, namespace: Option<&str>) -> Result<(), kube::Error> {
    list_selected::<K>(context, namespace, selector::<K>().as_deref()).await
}

/// The same, by all objects that the selector leaves.
pub(crate) async fn list_selected<K: Watched>(
    context: &Context,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<(), kube::Error> {
    let api = K::guarded_api(&context.client, namespace);
    let mut params = ListParams::default().limit(PAGE);
    if let Some(selector) = selector {
        params = params.labels(selector);
    }
    let mut present = BTreeSet::new();
    loop {
        let page = api.list(&params).await?;
        present.extend(page.items.into_iter().filter_map(|object| store(context, &object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    forget_others::<K>(context, namespace, &present);
    Ok(())
}

#[cfg(test)]
mod tests;
