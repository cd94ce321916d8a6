//! Watches the objects that routing and statuses depend on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret},
};
use kube::{Client, runtime::reflector::Store};
use longboat_api::{
    foreign::{gateway::Gateway, httproute::HTTPRoute, leaderworkerset::LeaderWorkerSet},
    v1alpha2::LLMInferenceService,
};
use longboat_key::Key;
use longboat_watch::{Events, Selection};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    Picking, RoutingInputs,
    certificates::LastUsable,
    keys,
    observed::only_tls_probes,
    picking,
    references::References,
    secret_namespaces::SecretNamespaces,
    source::{Source, Watchable},
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
    secrets: ByName<Secret>,
    last_usable: LastUsable,
    config_maps: ByName<ConfigMap>,
    /// The copies of API keys that the controller has made. Only pods read them.
    key_copies: Option<ByName<Secret>>,
    source: Source,
    wake: mpsc::Receiver<()>,
}

/// The list of a kind among the inputs.
type List<K> = fn(&mut RoutingInputs) -> &mut Vec<Arc<K>>;

/// Adds the objects that a watch has found.
type InputSource = Box<dyn Fn(&mut RoutingInputs) + Send + Sync>;

/// What the watches have found.
#[derive(Default)]
struct Stores {
    found: Vec<InputSource>,
    /// Ends the watches.
    tasks: JoinSet<()>,
}

/// Watches of single objects. The rights of a process can be limited to them.
struct ByName<K: Watchable> {
    /// What the objects must have besides their name: the end of a field selector.
    selector: &'static str,
    /// Removes what nobody reads, before an object is stored.
    trim: fn(&mut K),
    open: BTreeMap<Key, (Store<K>, JoinSet<()>)>,
}

// === impl Watcher ===

impl Watcher {
    pub(crate) fn start(client: &Client, scope: &Scope) -> Self {
        let (source, wake) = Source::new(client);
        Self {
            stores: Stores::watch(&source, scope),
            secrets: ByName::new(CERTIFICATE, trim_certificate),
            last_usable: LastUsable::default(),
            config_maps: ByName::new("", |_| {}),
            key_copies: matches!(scope, Scope::Pod(..)).then(|| ByName::new("", |_| {})),
            source,
            wake,
        }
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
            // The watch that is waited for wakes this one at its end.
            if self.source.waits() {
                continue;
            }
            let observed = self.observed();
            let mut references = References::new(&observed);
            references.config_maps.extend(more(&observed));
            self.secrets.follow(&self.source, &references.secrets);
            self.config_maps.follow(&self.source, &references.config_maps);
            if let Some(copies) = &mut self.key_copies {
                copies.follow(&self.source, &references.api_keys);
            }
            if !self.source.waits() {
                // Again, without the objects whose watches have just ended.
                let mut observed = self.observed();
                observed.former_secrets = self.last_usable.update(&observed.secrets);
                return Some(observed);
            }
        }
    }

    fn observed(&self) -> RoutingInputs {
        let copies = self.key_copies.iter().flat_map(ByName::state);
        let mut all = RoutingInputs {
            secrets: self.secrets.state(),
            config_maps: self.config_maps.state(),
            api_keys: copies.flat_map(|copy| keys::copied_secrets(&copy)).collect(),
            ..RoutingInputs::default()
        };
        self.stores.found.iter().for_each(|add| add(&mut all));
        all
    }
}

// === impl Stores ===

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
        let mut all = Self::default();
        all.every(source, |inputs| &mut inputs.classes);
        all.every(source, |inputs| &mut inputs.pools);
        all.every(source, |inputs| &mut inputs.namespaces);
        all.every(source, |inputs| &mut inputs.services);
        all.every(source, |inputs| &mut inputs.listener_sets);
        all.every(source, |inputs| &mut inputs.grants);
        all.every(source, |inputs| &mut inputs.tls_policies);
        let gateways = match scope {
            Scope::Machine | Scope::Manager(_) => Selection::of::<Gateway>(),
            Scope::Pod(own, _) => Selection::of::<Gateway>()
                .within(Some(own.namespace.as_deref()))
                .fields(format!("metadata.name={}", own.name)),
        };
        all.selected(source, &gateways, |_| {}, |inputs| &mut inputs.gateways);
        let trim = if matches!(scope, Scope::Pod(..)) { trim_served_route } else { trim_route };
        all.trimmed(source, trim, |inputs| &mut inputs.routes);
        match scope {
            Scope::Machine => all.every(source, |inputs| &mut inputs.inference),
            // Only their annotations count. A newer release may have written a spec that this build cannot read, and a service
            // that asks for API keys must not be overlooked for that.
            Scope::Pod(..) | Scope::Manager(_) => {
                let events = longboat_watch::metadata(&source.client, Selection::of::<LLMInferenceService>());
                all.add(source, events, |_| {}, |inputs| &mut inputs.inference);
            }
        }
        let key_namespaces = match scope {
            Scope::Machine => vec![None],
            Scope::Manager(namespaces) => namespaces.scopes(),
            // Rights cannot be limited to a label, and a pod must not read all Secrets.
            Scope::Pod(..) => Vec::new(),
        };
        let keys = Selection::of::<Secret>().labelled(format!("{}=true", keys::LABEL));
        for namespace in key_namespaces {
            // Hashed before the Secret is stored, so that memory has no key.
            all.selected(source, &keys.clone().within(namespace), keys::hash_keys, |inputs| {
                &mut inputs.api_keys
            });
        }
        let trim = match scope {
            Scope::Manager(_) => return all,
            Scope::Pod(_, Picking::Gateway) => trim_picker,
            Scope::Pod(_, Picking::Pods) | Scope::Machine => trim_deployment,
        };
        all.trimmed(source, trim, |inputs| &mut inputs.deployments);
        all.every(source, |inputs| &mut inputs.slices);
        all.trimmed(source, trim_pod, |inputs| &mut inputs.pods);
        all.trimmed(source, trim_group, |inputs| &mut inputs.leader_worker_sets);
        all.every(source, |inputs| &mut inputs.autoscalers);
        all.every(source, |inputs| &mut inputs.scaled_objects);
        all
    }

    /// Watches all objects of a kind.
    fn every<K: Watchable>(&mut self, source: &Source, list: List<K>) {
        self.trimmed(source, |_| {}, list);
    }

    /// The same, without the parts that `trim` removes.
    fn trimmed<K: Watchable>(&mut self, source: &Source, trim: fn(&mut K), list: List<K>) {
        self.selected(source, &Selection::of::<K>(), trim, list);
    }

    fn selected<K: Watchable>(
        &mut self,
        source: &Source,
        selection: &Selection,
        trim: fn(&mut K),
        list: List<K>,
    ) {
        self.add(source, longboat_watch::decoded(&source.client, selection), trim, list);
    }

    fn add<K: Watchable>(&mut self, source: &Source, events: Events<K>, trim: fn(&mut K), list: List<K>) {
        let store = source.reflect(events, &mut self.tasks, trim, usize::MAX);
        self.found.push(Box::new(move |inputs| list(inputs).extend(store.state())));
    }
}

// === impl ByName ===

impl<K: Watchable> ByName<K> {
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
