//! Peers: what the reconcile of one service needs to know about the other services in its namespace.

use std::{collections::BTreeSet, sync::Arc};

use longboat_api::{
    annotations,
    conditions::{self, Row, types},
    foreign::reference::BackendObjectReference,
    groups,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, ScaledReference},
};
use longboat_key::{Name, Namespace};

use crate::names;

const POOL: &str = "InferencePool";
const PORT: i32 = 8000;

/// What other services depend on about a service. A peer takes a tenth of the service's memory, and says whether the service
/// shares traffic, a model's name or a config without decoding the whole object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The routing group that the service joins.
    pub group: Option<Box<str>>,
    /// The models that it serves, sorted, without the prefix that all models of a namespace share.
    pub models: Box<[Box<str>]>,
    /// The configs that it uses.
    pub configs: UsedConfigs,
    /// While the service is not composed, for instance because a config is missing: the names of the configs that it would
    /// use in addition to the presets, in its own namespace or the system namespace.
    pub would_use: Option<Box<[Box<str>]>>,
    /// Its share of the group's traffic.
    pub(crate) weight: i32,
    /// Whether it is being deleted.
    pub(crate) is_leaving: bool,
    /// Whether it is stopped.
    pub(crate) is_stopped: bool,
    /// Whether the service has endpoints and gateways accept its pool.
    pub(crate) is_routable: bool,
    /// The backend to which the group sends traffic for this service.
    pub(crate) backend: Backend,
}

/// Namespace and name of a config. They are not shared with other services, which takes less memory than a [`Key`].
///
/// [`Key`]: longboat_key::Key
type AppliedConfig = (Namespace<Box<str>>, Name<Box<str>>);

/// The configs that a service uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsedConfigs {
    /// Namespaces and names of the configs that the status lists as applied.
    Applied(Box<[AppliedConfig]>),
    /// Nothing was applied yet: the names that the spec mentions, of configs in the service's namespace or the system
    /// namespace.
    Mentioned(Box<[Box<str>]>),
}

/// The backend of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// An `InferencePool` of this name.
    Pool(Box<str>),
    /// A Service of this name.
    Service(Box<str>),
}

/// The peers of every namespace.
pub type Peers = longboat_store::Summaries<Peer>;

/// Adds a peer for each of these services.
pub fn add_peers<'a>(peers: &mut Peers, services: impl IntoIterator<Item = &'a LLMInferenceService>) {
    for service in services {
        let metadata = &service.metadata;
        peers.insert(Namespace::of(metadata), Name::of(metadata), Arc::new(Peer::of(service)));
    }
}

// === impl Peer ===

impl Peer {
    /// Summarises a service.
    pub fn of(service: &LLMInferenceService) -> Self {
        let metadata = &service.metadata;
        Self {
            group: group_of(&service.spec).map(Into::into),
            models: models_of(service, Namespace::of(metadata)).into_iter().map(Into::into).collect(),
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

/// The group that a spec joins.
pub fn group_of(spec: &LLMInferenceServiceSpec) -> Option<&str> {
    spec.route()?.group.as_deref().filter(|group| !group.is_empty())
}

/// The weight that a spec asks for in its group.
pub(crate) fn weight(spec: &LLMInferenceServiceSpec) -> i32 {
    spec.route().and_then(|route| route.weight).unwrap_or_default()
}

/// The models that a composed or raw spec serves, without the prefix that all models of a namespace share.
pub fn models_of_spec<'a>(spec: &'a LLMInferenceServiceSpec, service: Name<&'a str>) -> BTreeSet<&'a str> {
    let base = spec.model.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(service.as_str());
    let adapters = spec.adapters().iter().filter_map(|adapter| adapter.name.as_deref());
    std::iter::once(base).chain(adapters).collect()
}

/// The models that a member's status lists, or those of its spec while the status lists none.
fn models_of<'a>(peer: &'a LLMInferenceService, namespace: Namespace<&str>) -> BTreeSet<&'a str> {
    let without_prefix = |name: &'a str| {
        let rest = name.strip_prefix("publishers/")?.strip_prefix(namespace.as_str())?;
        rest.strip_prefix("/models/")
    };
    let served = peer.status.iter().flat_map(|status| &status.addresses).flat_map(|address| &address.models);
    let served: BTreeSet<&str> =
        served.map(|model| without_prefix(&model.name).unwrap_or(&model.name)).collect();
    if served.is_empty() { models_of_spec(&peer.spec, Name::of(&peer.metadata)) } else { served }
}

/// The backend to which a group sends traffic for this member.
fn backend_of(peer: &LLMInferenceService) -> Backend {
    if let Some(external) = peer.spec.scheduler().and_then(|scheduler| scheduler.external_pool()) {
        return Backend::Pool(external.into());
    }
    let router = peer.status.as_ref().and_then(|status| status.router.as_ref());
    let managed = router.and_then(|router| router.scheduler.as_ref()?.inference_pool.as_ref());
    managed.map_or_else(
        || {
            let name = peer.metadata.name.as_deref().unwrap_or_default();
            Backend::Service(names::workload_service(Name(name)).into())
        },
        |managed| Backend::Pool(managed.name.as_str().into()),
    )
}

fn would_use(service: &LLMInferenceService) -> Option<Box<[Box<str>]>> {
    let status = service.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    if conditions.any(|found| found.type_ == types::PRESETS_COMBINED && found.is_true()) {
        return None;
    }
    let annotations = status.into_iter().flat_map(|status| &status.annotations);
    let pinned =
        annotations.filter(|(key, _)| key.starts_with(annotations::PRESET_PIN_PREFIX)).map(|(_, name)| name);
    let mentioned = service.spec.base_refs.iter().map(|reference| &reference.name);
    let mut names: Vec<Box<str>> = pinned.chain(mentioned).map(|name| name.as_str().into()).collect();
    names.sort_unstable();
    names.dedup();
    Some(names.into())
}

fn is_routable(service: &LLMInferenceService) -> bool {
    let Some(status) = &service.status else { return false };
    let is_false =
        |row: &Row| status.conditions.iter().any(|found| found.type_ == row.type_ && found.is_false());
    if conditions::ALL.iter().filter(|row| row.blocks_peers_when_false).any(is_false) {
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
    /// The applied configs decide. Until the status lists some, the configs that the spec mentions count.
    fn of(service: &LLMInferenceService) -> Self {
        let applied = service.status.iter().flat_map(|status| &status.applied_configs);
        let applied: Box<[_]> = applied
            .map(|config| (Namespace(config.namespace.as_str().into()), Name(config.name.as_str().into())))
            .collect();
        if !applied.is_empty() {
            return Self::Applied(applied);
        }
        let mentioned = service.spec.base_refs.iter();
        Self::Mentioned(mentioned.map(|reference| reference.name.as_str().into()).collect())
    }
}

// === impl Backend ===

impl Backend {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Pool(name) | Self::Service(name) => name,
        }
    }

    pub(crate) fn reference(&self) -> BackendObjectReference {
        let (group, kind) = match self {
            Self::Pool(_) => (groups::POOL, POOL),
            Self::Service(_) => ("", "Service"),
        };
        BackendObjectReference {
            group: Some(group.into()),
            kind: Some(kind.into()),
            name: self.name().to_owned(),
            port: Some(PORT),
            ..BackendObjectReference::default()
        }
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
        assert_eq!(
            after.configs,
            UsedConfigs::Applied([(Namespace("kserve".into()), Name("preset".into()))].into())
        );
    }
}
