//! Peers: what reconciling one service depends on of the others in its namespace.

use std::{collections::BTreeMap, fmt, sync::Arc};

use longboat_api::{
    annotations,
    conditions::types,
    v1alpha2::{LLMInferenceService, ScaledReference},
};
use rpds::RedBlackTreeMapSync;

use crate::router::group::{backend_of, models_of, name_of, weight};

/// What others depend on of a service, in a tenth of its size: nobody has to read the whole service to know whether it
/// shares traffic, a model's name or a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The group that it joins.
    pub group: Option<Box<str>>,
    /// The models that it serves, sorted, without the part of the name that all of a namespace share.
    pub models: Box<[Box<str>]>,
    /// The configs that it uses.
    pub configs: UsedConfigs,
    /// While it is not composed, because a config is missing for instance: names of configs that it would use, beside the
    /// presets, in its own namespace or the platform's.
    pub would_use: Option<Box<[Box<str>]>>,
    /// Its share of the group's traffic.
    pub(crate) weight: i32,
    /// Whether it is being deleted.
    pub(crate) is_leaving: bool,
    /// Whether it is stopped.
    pub(crate) is_stopped: bool,
    /// Whether something serves behind it, and gateways take its pool.
    pub(crate) is_routable: bool,
    /// What its group sends traffic to.
    pub(crate) backend: Backend,
}

/// The configs that a service uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsedConfigs {
    /// Namespaces and names of those that its status says were applied.
    Applied(Box<[(Box<str>, Box<str>)]>),
    /// Nothing was applied yet: names that its spec mentions, of configs in its own namespace or the platform's.
    Mentioned(Box<[Box<str>]>),
}

/// What traffic for a service is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// An `InferencePool` of this name.
    Pool(Box<str>),
    /// A Service of this name.
    Service(Box<str>),
}

/// Peers by namespace and name. Clones share what both have, as those of [`Objects`](crate::Objects) do.
#[derive(Clone, Default)]
pub struct Peers(BTreeMap<Arc<str>, Named>);

type Named = RedBlackTreeMapSync<Arc<str>, Arc<Peer>>;

// === impl Peer ===

impl Peer {
    /// What others depend on of this service.
    pub fn of(service: &LLMInferenceService) -> Self {
        let metadata = &service.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            group: name_of(&service.spec).map(Into::into),
            models: models_of(service, namespace).into_iter().map(Into::into).collect(),
            configs: UsedConfigs::of(service),
            would_use: would_use(service),
            weight: weight(&service.spec),
            is_leaving: metadata.deletion_timestamp.is_some(),
            is_stopped: annotations::is_stopped(metadata.annotations.as_ref()),
            is_routable: is_routable(service),
            backend: backend_of(service),
        }
    }
}

fn would_use(service: &LLMInferenceService) -> Option<Box<[Box<str>]>> {
    let status = service.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    if conditions.any(|found| found.type_ == types::PRESETS_COMBINED && found.is_true()) {
        return None;
    }
    let pinned = status.into_iter().flat_map(|status| status.annotations.values());
    let mentioned = service.spec.base_refs.iter().map(|reference| &reference.name);
    let mut names: Vec<Box<str>> = pinned.chain(mentioned).map(|name| name.as_str().into()).collect();
    names.sort_unstable();
    names.dedup();
    Some(names.into())
}

fn is_routable(service: &LLMInferenceService) -> bool {
    const BEHIND: [&str; 4] = [
        types::GATEWAYS_READY,
        types::INFERENCE_POOL_READY,
        types::SCHEDULER_WORKLOAD_READY,
        types::TOKENIZER_READY,
    ];
    let Some(status) = &service.status else { return false };
    let bad = |type_: &str| status.conditions.iter().any(|found| found.type_ == type_ && found.is_false());
    if BEHIND.into_iter().any(bad) {
        return false;
    }
    let serves = |workload: &ScaledReference| workload.ready_replicas.is_some_and(|ready| ready > 0);
    status.workloads.as_ref().is_some_and(|workloads| {
        workloads.primary.as_ref().is_some_and(serves)
            && workloads.prefill.as_ref().is_none_or(serves)
            && workloads.scheduler.as_ref().is_none_or(serves)
    })
}

// === impl UsedConfigs ===

impl UsedConfigs {
    /// What was applied is authoritative; until something was, mentioning a config counts.
    fn of(service: &LLMInferenceService) -> Self {
        let applied = service.status.iter().flat_map(|status| &status.applied_configs);
        let applied: Box<[_]> =
            applied.map(|config| (config.namespace.as_str().into(), config.name.as_str().into())).collect();
        if !applied.is_empty() {
            return Self::Applied(applied);
        }
        let mentioned = service.spec.base_refs.iter();
        Self::Mentioned(mentioned.map(|reference| reference.name.as_str().into()).collect())
    }
}

// === impl Peers ===

impl Peers {
    /// The peer of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Peer>> {
        self.0.get(namespace)?.get(name).cloned()
    }

    /// The peers of a namespace, with its name and theirs, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Peer)> {
        let named = self.0.get_key_value(namespace).into_iter();
        named.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, peer)| (namespace, name, peer.as_ref()))
        })
    }

    /// All of them, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Peer)> {
        let all = self.0.iter();
        all.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, peer)| (namespace, name, peer.as_ref()))
        })
    }

    /// Adds a peer; the one it replaces.
    pub fn insert(&mut self, namespace: &str, name: &str, peer: Arc<Peer>) -> Option<Arc<Peer>> {
        let Some(named) = self.0.get_mut(namespace) else {
            self.0.insert(namespace.into(), Named::default().insert(name.into(), peer));
            return None;
        };
        let known = named.get_key_value(name).map(|(name, peer)| (Arc::clone(name), Arc::clone(peer)));
        let (name, replaced) = known.map_or_else(|| (name.into(), None), |(name, peer)| (name, Some(peer)));
        if replaced.as_deref() != Some(&*peer) {
            named.insert_mut(name, peer);
        }
        replaced
    }

    /// Takes a peer out.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<Peer>> {
        let named = self.0.get_mut(namespace)?;
        let removed = named.get(name).cloned()?;
        named.remove_mut(name);
        Some(removed)
    }

    /// Takes over those of a namespace, in place of what was there.
    pub fn adopt(&mut self, namespace: &str, from: &Self) {
        if let Some((namespace, named)) = from.0.get_key_value(namespace) {
            self.0.insert(Arc::clone(namespace), named.clone());
        }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(namespace, named)| (namespace, named.keys().collect::<Vec<_>>()));
        f.debug_map().entries(names).finish()
    }
}

impl<'a> Extend<&'a LLMInferenceService> for Peers {
    fn extend<T: IntoIterator<Item = &'a LLMInferenceService>>(&mut self, services: T) {
        for service in services {
            let metadata = &service.metadata;
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let name = metadata.name.as_deref().unwrap_or_default();
            self.insert(namespace, name, Arc::new(Peer::of(service)));
        }
    }
}

impl<'a> FromIterator<&'a LLMInferenceService> for Peers {
    fn from_iter<T: IntoIterator<Item = &'a LLMInferenceService>>(services: T) -> Self {
        let mut peers = Self::default();
        peers.extend(services);
        peers
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, spec: &Value, status: &Value) -> LLMInferenceService {
        serde_json::from_value(json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn texts(all: &[Box<str>]) -> Vec<&str> {
        all.iter().map(AsRef::as_ref).collect()
    }

    #[test]
    fn what_the_status_says_counts_once_it_says_something() {
        let spec = json!({
            "model": {"uri": "hf://a/b", "name": "own", "lora": {"adapters": [{"uri": "hf://c/d", "name": "extra"}]}},
            "baseRefs": [{"name": "base"}],
        });
        let before = Peer::of(&service("a", &spec, &json!({})));
        assert_eq!(texts(&before.models), ["extra", "own"]);
        assert_eq!(before.configs, UsedConfigs::Mentioned(["base".into()].into()));
        let status = json!({
            "addresses": [{"url": "http://x/", "models": [{"name": "publishers/ns/models/told"}, {"name": "publishers/other"}]}],
            "appliedConfigs": [{"namespace": "kserve", "name": "preset"}],
        });
        let after = Peer::of(&service("a", &spec, &status));
        assert_eq!(texts(&after.models), ["publishers/other", "told"]);
        assert_eq!(after.configs, UsedConfigs::Applied([("kserve".into(), "preset".into())].into()));
    }

    #[test]
    fn a_copy_stays_as_it_was() {
        let spec = json!({"model": {"uri": "hf://a/b"}});
        let [a, b] = ["a", "b"].map(|name| service(name, &spec, &json!({})));
        let mut peers: Peers = [&a].into_iter().collect();
        let mut copy = Peers::default();
        copy.adopt("ns", &peers);
        copy.adopt("other", &peers);
        peers.extend([&b]);
        assert!(peers.insert("ns", "a", Arc::new(Peer::of(&b))).is_some());
        let names = |peers: &Peers| peers.iter().map(|(_, name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(
            (names(&copy), names(&peers)),
            (vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(texts(&copy.get("ns", "a").unwrap().models), ["a"]);
        assert_eq!(texts(&peers.get("ns", "a").unwrap().models), ["b"]);
        assert!(peers.remove("ns", "b").is_some() && peers.get("ns", "b").is_none());
        assert!(peers.remove("ns", "b").is_none());
    }
}
