//! The kinds with known rules.

use std::sync::{Arc, LazyLock};

use longboat_api::{
    crd, groups,
    v1alpha2::{API_VERSION, GROUP},
};
use longboat_key::nearest;
use longboat_manifest::Document;
use longboat_strategy::kinds::{Registry, Resource, custom};
use serde_json::Value;

/// Our own kinds, and the kinds that every cluster has. Creating definitions takes time, so each set is created once, when it
/// is first used.
static OWN: LazyLock<Registry> = LazyLock::new(|| registry_of(crd::own()));

/// Like [`OWN`], with the kinds of Gateway API, InferencePools and runtimes, and those that pickers read.
static ALL: LazyLock<Registry> = LazyLock::new(|| {
    let of_gateways = crd::foreign().into_iter().chain(crd::gateway_kinds());
    registry_of(crd::own().into_iter().chain(of_gateways).chain(crd::runtimes()).chain(crd::pickers()))
});

/// LeaderWorkerSet and ScaledObject.
static OPTIONAL: LazyLock<Registry> = LazyLock::new(|| registry_of(crd::optional()));

/// The kinds with known rules.
pub(crate) struct Kinds {
    registry: &'static Registry,
    /// The kinds that the manifests themselves define.
    defined: Registry,
}

fn registry_of(definitions: impl IntoIterator<Item = Value>) -> Registry {
    let registry = Registry::default();
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        registry.put_custom(name, custom::resources(&definition));
    }
    registry
}

/// The kinds of the same API group that KServe has and Longboat does not.
const OF_KSERVE: [&str; 9] = [
    "ClusterStorageContainer",
    "InferenceGraph",
    "InferenceService",
    "LocalModelCache",
    "LocalModelNamespaceCache",
    "LocalModelNode",
    "LocalModelNodeGroup",
    "Model",
    "TrainedModel",
];

/// The result of looking up a kind.
pub(crate) enum KindLookup {
    /// A known kind.
    Yes(Arc<Resource>),
    /// One of our kinds, but misspelt or in an unknown version: the problem and a hint.
    Misspelt(String, String),
    /// A kind without known rules.
    No,
}

// === impl Kinds ===

impl Kinds {
    /// The kinds for these manifests.
    pub(crate) fn of(documents: &[Document]) -> Self {
        let is_foreign = |document: &Document| {
            let group = document.group();
            let is_runtime = group == GROUP && document.kind().ends_with("ServingRuntime");
            group.contains(".networking.")
                || group.starts_with("inference.")
                || groups::PICKER.contains(&group)
                || is_runtime
        };
        let registry = if documents.iter().any(is_foreign) { &*ALL } else { &*OWN };
        let is_used = |definition: &&Document| {
            let spec = &definition.object["spec"];
            // Of our own group this build's definitions count: those in the files may be of KServe, or of another release.
            let group = spec["group"].as_str().filter(|group| *group != GROUP);
            let kind = spec["names"]["kind"].as_str();
            documents.iter().any(|one| Some(one.group()) == group && Some(one.kind()) == kind)
        };
        let definitions = documents.iter().filter(|document| document.kind() == "CustomResourceDefinition");
        let defined = registry_of(definitions.filter(is_used).map(|document| document.object.clone()));
        Self { registry, defined }
    }

    /// Looks up the kind of a manifest.
    pub(crate) fn find(&self, document: &Document) -> KindLookup {
        let (api_version, kind) = (document.api_version(), document.kind());
        if let Some(resource) = self.registry.find_kind(api_version, kind) {
            return KindLookup::Yes(resource);
        }
        if let Some(resource) = self.defined.find_kind(api_version, kind) {
            return KindLookup::Yes(resource);
        }
        let group = document.group();
        if groups::OPTIONAL.contains(&group) {
            return OPTIONAL.find_kind(api_version, kind).map_or(KindLookup::No, KindLookup::Yes);
        }
        if group == groups::GATEWAY
            && let Some(resource) = self.registry.find_kind(&format!("{}/v1", groups::GATEWAY), kind)
        {
            return KindLookup::Yes(resource);
        }
        // A kind of our own in a foreign group, or the other way round.
        let elsewhere = |registry: &Registry| {
            let groups = registry.groups();
            let all = groups.iter().flat_map(|(_, versions)| versions.values()).flatten().cloned();
            all.filter(|known| known.kind == kind && known.group != group)
                .map(|known| known.api_version())
                .max()
        };
        let meant = if group == GROUP { elsewhere(&ALL) } else { elsewhere(&OWN) };
        if let Some(meant) = meant {
            return KindLookup::Misspelt(
                format!("no kind {kind:?} in {api_version:?}"),
                format!("write `apiVersion: {meant}`"),
            );
        }
        if group != GROUP || OF_KSERVE.contains(&kind) {
            return KindLookup::No;
        }
        let served = self.own();
        let versions = |kind: &str| -> Vec<&str> {
            served.iter().filter(|own| own.kind == kind).map(|own| own.version.as_str()).collect()
        };
        let known = versions(kind);
        if !known.is_empty() {
            let problem = format!("no version {api_version:?} of kind {kind:?}");
            return KindLookup::Misspelt(
                problem,
                format!("write `{GROUP}/{}`", known.join(&format!("` or `{GROUP}/"))),
            );
        }
        match nearest(served.iter().map(|own| own.kind.as_str()), kind) {
            Some(meant) => {
                let problem = format!("no kind {kind:?} in {api_version:?}");
                KindLookup::Misspelt(problem, format!("did you mean `{meant}`?"))
            }
            // KServe also has kinds that Longboat does not implement.
            None => KindLookup::No,
        }
    }

    /// One of our own kinds in its storage version.
    pub(crate) fn stored(&self, kind: &str) -> Option<Arc<Resource>> {
        self.registry.find_kind(API_VERSION, kind)
    }

    fn own(&self) -> Vec<Arc<Resource>> {
        let groups = self.registry.groups();
        let own = groups.get(GROUP).into_iter().flat_map(|versions| versions.values()).flatten();
        own.cloned().collect()
    }
}
