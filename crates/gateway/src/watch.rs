//! Watches the objects that routing and statuses depend on.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Namespace, Pod, Secret, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Client, Resource,
    runtime::{reflector, reflector::Store, watcher},
};
use longboat_api::{
    annotations::LAST_APPLIED,
    foreign::{
        backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass,
        httproute::HTTPRoute, inferencepool::InferencePool, leaderworkerset::LeaderWorkerSet,
        listenerset::ListenerSet, referencegrant::ReferenceGrant, scaledobject::ScaledObject,
    },
    v1alpha2::LLMInferenceService,
};
use longboat_key::Key;
use longboat_watch::{Decode, Events, Selection, has_code, text_of_watch};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    Picking, RoutingInputs, keys, observed::only_tls_probes, picking, references::References,
    secret_namespaces::SecretNamespaces,
};

/// How long to collect changes. They come in bursts (a rollout changes pods, slices and routes at once), and one computation
/// handles a whole burst.
const DEBOUNCE: Duration = Duration::from_millis(5);

/// After so many failures, an object that is watched by its name counts as absent: the right to it may never come.
const MAX_FAILURES: usize = 3;

/// Selects Secrets with certificates. The others are none of the gateway's business, also if a listener names them.
const CERTIFICATE: &str = ",type=kubernetes.io/tls";

/// The entries of such a Secret.
const CERTIFICATE_ENTRIES: [&str; 2] = ["tls.crt", "tls.key"];

/// What a process watches.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    /// Everything: it serves all Gateways, and writes their statuses.
    Machine,
    /// All Gateways, but no endpoints: it writes statuses, and others serve. It reads Secrets in these namespaces.
    Manager(SecretNamespaces),
    /// One Gateway and what it serves. It reads the flags of pickers if it picks in their place.
    Pod(Key, Picking),
}

/// The watches of a process.
pub(crate) struct Watcher {
    stores: Stores,
    source: Source,
    wake: mpsc::Receiver<()>,
}

/// Starts watches, and knows which have not delivered yet.
#[derive(Clone)]
pub(crate) struct Source {
    client: Client,
    /// The capacity is one: a pending signal also covers later changes.
    changed: mpsc::Sender<()>,
    /// The number of watches whose first list has not arrived.
    pending: Arc<AtomicUsize>,
}

/// What an event of a watch means, without its object: all kinds share what follows from it.
enum Progress {
    /// A list is arriving.
    Listing,
    /// A list is complete.
    Listed,
    Changed,
}

/// A watch whose first list has not arrived.
struct FirstList(Source);

struct Stores {
    classes: Store<GatewayClass>,
    gateways: Store<Gateway>,
    routes: Store<HTTPRoute>,
    pools: Store<InferencePool>,
    namespaces: Store<Namespace>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    pods: Store<Pod>,
    inference: Store<LLMInferenceService>,
    listener_sets: Store<ListenerSet>,
    grants: Store<ReferenceGrant>,
    api_keys: Vec<Store<Secret>>,
    tls_policies: Store<BackendTLSPolicy>,
    deployments: Store<Deployment>,
    leader_worker_sets: Store<LeaderWorkerSet>,
    autoscalers: Store<HorizontalPodAutoscaler>,
    scaled_objects: Store<ScaledObject>,
    secrets: ByName<Secret>,
    config_maps: ByName<ConfigMap>,
    /// The copies of API keys that the controller has made. Only pods read them.
    key_copies: Option<ByName<Secret>>,
    /// Ends the watches.
    _tasks: JoinSet<()>,
}

/// Watches of single objects. The rights of a process can be limited to them.
struct ByName<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// What the objects must have besides their name: the end of a field selector.
    selector: &'static str,
    /// Removes what nobody reads, before an object is stored.
    trim: fn(&mut K),
    open: BTreeMap<Key, (Store<K>, JoinSet<()>)>,
}

// === impl Watcher ===

impl Watcher {
    pub(crate) fn start(client: &Client, scope: &Scope) -> Self {
        let (changed, wake) = mpsc::channel(1);
        let source = Source { client: client.clone(), changed, pending: Arc::default() };
        Self { stores: Stores::watch(&source, scope), source, wake }
    }

    /// Starts watches whose changes wake this watcher.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Waits for a change, and returns all objects. Waits until every kind was listed, because absent objects would otherwise
    /// be reported as missing. `more` names other ConfigMaps to watch.
    pub(crate) async fn next(
        &mut self,
        more: impl Fn(&RoutingInputs) -> BTreeSet<Key>,
    ) -> Option<RoutingInputs> {
        loop {
            self.wake.recv().await?;
            tokio::time::sleep(DEBOUNCE).await;
            if self.source.waits() {
                continue;
            }
            let observed = self.stores.observed();
            let mut references = References::new(&observed);
            references.config_maps.extend(more(&observed));
            self.stores.secrets.follow(&self.source, &references.secrets);
            self.stores.config_maps.follow(&self.source, &references.config_maps);
            if let Some(copies) = &mut self.stores.key_copies {
                copies.follow(&self.source, &references.api_keys);
            }
            if !self.source.waits() {
                return Some(self.stores.observed());
            }
        }
    }
}

// === impl Source ===

impl Source {
    fn waits(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    /// Wakes the watcher, as a change would.
    pub(crate) fn wake(&self) {
        // If the channel is full, the watcher wakes anyway.
        let _ = self.changed.try_send(());
    }

    /// Wakes the watcher after a while. The task ends with the watcher.
    pub(crate) fn wake_after(&self, delay: Duration) {
        let source = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(delay) => source.wake(),
                () = source.changed.closed() => {}
            }
        });
    }

    /// Watches objects, without the parts that `trim` removes.
    pub(crate) fn watch<K>(
        &self,
        selection: &Selection,
        tasks: &mut JoinSet<()>,
        trim: fn(&mut K),
    ) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Decode + Send + Sync + 'static,
    {
        self.reflect(longboat_watch::decoded(&self.client, selection), tasks, trim, usize::MAX)
    }

    /// Keeps the objects of a watch, without the parts that `trim` removes before they are stored.
    fn reflect<K>(
        &self,
        events: Events<K>,
        tasks: &mut JoinSet<()>,
        trim: fn(&mut K),
        max_failures: usize,
    ) -> Store<K>
    where
        K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let (reader, mut writer) = reflector::store();
        let mut store = move |event: watcher::Event<K>| {
            let event = event.modify(|object| {
                let metadata = object.meta_mut();
                metadata.managed_fields = None;
                if let Some(annotations) = &mut metadata.annotations {
                    annotations.remove(LAST_APPLIED);
                }
                trim(object);
            });
            writer.apply_watcher_event(&event);
            Progress::of(&event)
        };
        let progress = events.map(move |event| event.map(&mut store)).boxed();
        tasks.spawn(self.clone().follow(K::kind(&()), progress, max_failures));
        reader
    }

    fn first_list(&self) -> FirstList {
        self.pending.fetch_add(1, Ordering::AcqRel);
        FirstList(self.clone())
    }

    /// Signals the changes of a watch. Must be called before the task starts, so that the watch counts from now on.
    fn follow(
        self,
        kind: Cow<'static, str>,
        progress: BoxStream<'static, watcher::Result<Progress>>,
        max_failures: usize,
    ) -> impl Future<Output = ()> + Send {
        let mut first = Some(self.first_list());
        let mut failures = 0;
        progress.for_each(move |progress| {
            match progress {
                // A new list is only signalled when it is complete. Otherwise the process would see a partial cluster.
                Ok(Progress::Listing) => {}
                Ok(Progress::Listed) => {
                    drop(first.take());
                    self.wake();
                }
                Ok(Progress::Changed) => self.wake(),
                Err(error) => {
                    let text = text_of_watch(&error);
                    failures += 1;
                    // Without the first list, nothing is served. One line says why; a watch by name may wait for its right.
                    if failures == 1 && first.is_some() && max_failures == usize::MAX && !is_absent(&error) {
                        tracing::warn!(error = %text, %kind, "Cannot list objects; nothing new is served until this works.");
                    } else {
                        tracing::debug!(error = %text, %kind, "Restarting a watch that failed.");
                    }
                    // A cluster may lack optional kinds.
                    if is_absent(&error) || failures >= max_failures {
                        drop(first.take());
                    }
                }
            }
            future::ready(())
        })
    }
}

// === impl Progress ===

impl Progress {
    fn of<K>(event: &watcher::Event<K>) -> Self {
        match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => Self::Listing,
            watcher::Event::InitDone => Self::Listed,
            watcher::Event::Apply(_) | watcher::Event::Delete(_) => Self::Changed,
        }
    }
}

fn is_absent(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(error) if has_code(error, 404))
}

impl Drop for FirstList {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::AcqRel);
        self.0.wake();
    }
}

// === impl Stores ===

/// A store of a kind that is not watched.
fn nothing<K: Resource<DynamicType = ()> + Clone + 'static>() -> Store<K> {
    reflector::store().0
}

/// Removes what routing does not read. A cluster may have thousands of pods.
fn trim_pod(pod: &mut Pod) {
    pod.spec = pod.spec.take().and_then(only_tls_probes);
    pod.metadata.annotations = None;
    pod.metadata.owner_references = None;
    if let Some(status) = &mut pod.status {
        status.container_statuses = None;
        status.init_container_statuses = None;
        status.ephemeral_container_statuses = None;
    }
}

/// Removes what is no part of the certificate. The annotation of `kubectl apply` has all entries again.
fn trim_certificate(secret: &mut Secret) {
    secret.metadata.annotations = None;
    secret.metadata.managed_fields = None;
    if let Some(data) = &mut secret.data {
        data.retain(|name, _| CERTIFICATE_ENTRIES.contains(&name.as_str()));
    }
}

/// Gives back the room for further elements that a decoder leaves in each list: most routes have one of each. A cluster may have
/// thousands of routes.
fn trim_route(route: &mut HTTPRoute) {
    let spec = &mut route.spec;
    spec.parent_refs.shrink_to_fit();
    spec.rules.shrink_to_fit();
    for rule in &mut spec.rules {
        rule.matches.shrink_to_fit();
        rule.filters.shrink_to_fit();
        rule.backend_refs.shrink_to_fit();
    }
}

/// The same without the status, which pods neither read nor write.
fn trim_served_route(route: &mut HTTPRoute) {
    route.status = None;
    trim_route(route);
}

/// Removes the pods of a workload, of which only the labels count.
fn trim_deployment(deployment: &mut Deployment) {
    deployment.status = None;
    if let Some(spec) = &mut deployment.spec {
        spec.template.spec = None;
    }
}

/// Removes what neither counts for workloads nor says how a picker runs.
fn trim_picker(deployment: &mut Deployment) {
    deployment.status = None;
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        picking::trim(pod);
    }
}

/// The same for groups of pods.
fn trim_group(set: &mut LeaderWorkerSet) {
    set.status = None;
    let group = &mut set.spec.leader_worker_template;
    group.worker_template.spec = None;
    if let Some(leader) = &mut group.leader_template {
        leader.spec = None;
    }
}

impl Stores {
    fn watch(source: &Source, scope: &Scope) -> Self {
        let mut tasks = JoinSet::new();
        macro_rules! all {
            ($kind:ty, $trim:expr) => {
                source.watch::<$kind>(&Selection::of::<$kind>(), &mut tasks, $trim)
            };
            ($kind:ty) => {
                all!($kind, |_| {})
            };
        }
        let gateways = match scope {
            Scope::Machine | Scope::Manager(_) => Selection::of::<Gateway>(),
            Scope::Pod(own, _) => Selection::of::<Gateway>()
                .within(Some(own.namespace.as_deref()))
                .fields(format!("metadata.name={}", own.name)),
        };
        let serves = !matches!(scope, Scope::Manager(_));
        let inference = match scope {
            Scope::Machine => all!(LLMInferenceService),
            // Only their annotations count. A newer release may have written a spec that this build cannot read, and a service
            // that asks for API keys must not be overlooked for that.
            Scope::Pod(..) | Scope::Manager(_) => {
                let selection = Selection::of::<LLMInferenceService>();
                source.reflect(
                    longboat_watch::metadata(&source.client, selection),
                    &mut tasks,
                    |_| {},
                    usize::MAX,
                )
            }
        };
        let key_namespaces = match scope {
            Scope::Machine => vec![None],
            Scope::Manager(namespaces) => namespaces.scopes(),
            // Rights cannot be limited to a label, and a pod must not read all Secrets.
            Scope::Pod(..) => Vec::new(),
        };
        let keys = Selection::of::<Secret>().labelled(format!("{}=true", keys::LABEL));
        // Hashed before the Secret is stored, so that memory has no key.
        let mut keys_in =
            |namespace| source.watch(&keys.clone().within(namespace), &mut tasks, keys::hash_keys);
        let api_keys = key_namespaces.into_iter().map(&mut keys_in).collect();
        Self {
            classes: all!(GatewayClass),
            gateways: source.watch(&gateways, &mut tasks, |_| {}),
            routes: match scope {
                Scope::Pod(..) => all!(HTTPRoute, trim_served_route),
                Scope::Machine | Scope::Manager(_) => all!(HTTPRoute, trim_route),
            },
            pools: all!(InferencePool),
            namespaces: all!(Namespace),
            services: all!(Service),
            slices: if serves { all!(EndpointSlice) } else { nothing() },
            pods: if serves { all!(Pod, trim_pod) } else { nothing() },
            inference,
            listener_sets: all!(ListenerSet),
            grants: all!(ReferenceGrant),
            api_keys,
            tls_policies: all!(BackendTLSPolicy),
            deployments: match scope {
                Scope::Pod(_, Picking::Gateway) => all!(Deployment, trim_picker),
                Scope::Pod(_, Picking::Pods) | Scope::Machine => all!(Deployment, trim_deployment),
                Scope::Manager(_) => nothing(),
            },
            leader_worker_sets: if serves { all!(LeaderWorkerSet, trim_group) } else { nothing() },
            autoscalers: if serves { all!(HorizontalPodAutoscaler) } else { nothing() },
            scaled_objects: if serves { all!(ScaledObject) } else { nothing() },
            secrets: ByName::new(CERTIFICATE, trim_certificate),
            config_maps: ByName::new("", |_| {}),
            key_copies: matches!(scope, Scope::Pod(..)).then(|| ByName::new("", |_| {})),
            _tasks: tasks,
        }
    }

    fn observed(&self) -> RoutingInputs {
        let copies = self.key_copies.iter().flat_map(ByName::state);
        let from_copies = copies.flat_map(|copy| keys::copied_secrets(&copy));
        RoutingInputs {
            classes: self.classes.state(),
            gateways: self.gateways.state(),
            routes: self.routes.state(),
            pools: self.pools.state(),
            namespaces: self.namespaces.state(),
            services: self.services.state(),
            slices: self.slices.state(),
            pods: self.pods.state(),
            inference: self.inference.state(),
            listener_sets: self.listener_sets.state(),
            grants: self.grants.state(),
            secrets: self.secrets.state(),
            api_keys: self.api_keys.iter().flat_map(Store::state).chain(from_copies).collect(),
            tls_policies: self.tls_policies.state(),
            config_maps: self.config_maps.state(),
            deployments: self.deployments.state(),
            leader_worker_sets: self.leader_worker_sets.state(),
            autoscalers: self.autoscalers.state(),
            scaled_objects: self.scaled_objects.state(),
        }
    }
}

// === impl ByName ===

impl<K> ByName<K>
where
    K: Resource<DynamicType = ()> + Clone + Decode + Send + Sync + 'static,
{
    fn new(selector: &'static str, trim: fn(&mut K)) -> Self {
        Self { selector, trim, open: BTreeMap::new() }
    }

    /// Watches these objects, and no others.
    fn follow(&mut self, source: &Source, keys: &BTreeSet<Key>) {
        self.open.retain(|key, _| keys.contains(key));
        for key in keys {
            if self.open.contains_key(key) {
                continue;
            }
            let selection = Selection::of::<K>()
                .within(Some(key.namespace.as_deref()))
                .fields(format!("metadata.name={}{}", key.name, self.selector));
            let events = longboat_watch::decoded(&source.client, &selection);
            let mut task = JoinSet::new();
            let reader = source.reflect(events, &mut task, self.trim, MAX_FAILURES);
            self.open.insert(key.clone(), (reader, task));
        }
    }

    fn state(&self) -> Vec<Arc<K>> {
        self.open.values().flat_map(|(store, _)| store.state()).collect()
    }
}
