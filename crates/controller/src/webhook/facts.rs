//! The inputs of admission besides the object itself: the platform's settings and the models cached on nodes.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, NodeSelectorTerm};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use longboat_admission::{Action, Facts, Hook, LocalModels, ModelCache, Subject};
use longboat_api::{foreign::localmodelcache::LocalModelCacheSpec, names, v1alpha2::GROUP};
use longboat_compose::{Platform, platform::PlatformError, texts_of};
use longboat_key::Namespace;
use serde::Deserialize;

use super::read_retry::{ReadError, with_retries};
use crate::{args::Args, context::Context, reader};

/// The source of these facts: the controller's caches, or a read of the API server.
#[derive(Clone)]
pub(super) struct Source {
    context: Arc<Context>,
    live: LiveFacts,
}

// === impl Source ===

impl Source {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let live = LiveFacts::new(context.client.clone(), context.args.clone());
        Self { context, live }
    }

    /// The facts for one request.
    ///
    /// Configs are checked against the live settings, not the cached ones: an installation writes both within milliseconds,
    /// and the cache may be behind.
    pub(super) async fn facts(&self, hook: Hook, body: &[u8]) -> Result<Facts, ReadError> {
        with_retries(|| self.at_once(hook, body)).await
    }

    async fn at_once(&self, hook: Hook, body: &[u8]) -> Result<Facts, kube::Error> {
        let cached = self.context.platform();
        // The cache fills a moment after the server starts, so an object that it lacks may exist.
        let missing = matches!(cached, Err(PlatformError::Missing { .. }));
        let platform = if hook.subject == Subject::Config || (is_marking(hook) && missing) {
            self.live.platform().await?
        } else {
            cached.map(|platform| platform.as_ref().clone())
        };
        self.live.with_platform(hook, platform, || namespace_of(body)).await
    }
}

/// Facts read from the API server for each request.
#[derive(Clone)]
pub struct LiveFacts {
    client: Client,
    args: Arc<Args>,
}

// === impl LiveFacts ===

impl LiveFacts {
    /// Facts for a controller with these arguments, read with `client`.
    pub fn new(client: Client, args: Args) -> Self {
        Self { client, args: Arc::new(args) }
    }

    /// The facts for a request about an object in `namespace`.
    ///
    /// # Errors
    ///
    /// If the API server does not respond, or refuses the request.
    pub async fn read(&self, hook: Hook, namespace: Option<Namespace<&str>>) -> Result<Facts, kube::Error> {
        let platform = self.platform().await?;
        self.with_platform(hook, platform, || namespace.map(Namespace::to_shared)).await
    }

    async fn with_platform(
        &self,
        hook: Hook,
        platform: Result<Platform, PlatformError>,
        namespace: impl FnOnce() -> Option<Namespace>,
    ) -> Result<Facts, kube::Error> {
        let enabled = platform.as_ref().is_ok_and(|platform| platform.local_model);
        let local_models = if enabled && is_marking(hook) {
            self.local_models(namespace()).await?
        } else {
            LocalModels::default()
        };
        Ok(Facts {
            system_namespace: self.args.system_namespace.clone(),
            preset_prefix: self.args.preset_prefix.clone(),
            prevent_preset_deletion: self.args.prevent_preset_deletion,
            platform,
            local_models,
            judges_pickers: true,
        })
    }

    async fn platform(&self) -> Result<Result<Platform, PlatformError>, kube::Error> {
        let namespace = self.args.system_namespace.as_deref();
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let Some(found) = api.get_opt(names::PLATFORM_CONFIG_MAP).await? else {
            return Ok(Err(PlatformError::Missing { name: names::PLATFORM_CONFIG_MAP }));
        };
        Ok(Platform::parse_for(texts_of(&found), namespace, self.args.image.as_deref()))
    }

    /// The model caches of `namespace` and of the cluster, and the nodes that they are on.
    async fn local_models(&self, namespace: Option<Namespace>) -> Result<LocalModels, kube::Error> {
        let client = &self.client;
        let mut all = Vec::new();
        let mut node_groups = BTreeMap::new();
        // A controller that watches only some namespaces may not list cluster-scoped objects.
        if self.args.namespaces.is_empty() {
            let Some(found) = list(client, "LocalModelCache", None).await? else {
                return Ok(LocalModels::default());
            };
            all.extend(found.into_iter().map(model_cache));
            let groups = list(client, "LocalModelNodeGroup", None).await?.unwrap_or_default();
            node_groups = groups.into_iter().map(node_group).collect();
        }
        if let Some(namespace) = namespace {
            let found = list(client, "LocalModelNamespaceCache", Some(namespace.as_deref())).await?;
            all.extend(found.unwrap_or_default().into_iter().map(model_cache));
        }
        Ok(LocalModels { caches: Some(all), node_groups })
    }
}

/// Whether the webhook may label a service with the cache that holds its model.
fn is_marking(hook: Hook) -> bool {
    (hook.subject, hook.action) == (Subject::Service, Action::Mutate)
}

async fn list(
    client: &Client,
    kind: &str,
    namespace: Option<Namespace<&str>>,
) -> Result<Option<Vec<DynamicObject>>, kube::Error> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    reader::list(&api, &ListParams::default()).await
}

fn model_cache(object: DynamicObject) -> ModelCache {
    let spec = object.data.get("spec");
    let spec = spec.and_then(|spec| LocalModelCacheSpec::deserialize(spec).ok()).unwrap_or_default();
    ModelCache {
        name: object.metadata.name.unwrap_or_default(),
        namespace: object.metadata.namespace.map(|namespace| Namespace(namespace.into())),
        is_on_claim: spec.shared_claim().is_some(),
        source_model_uri: spec.source_model_uri,
        node_groups: spec.node_groups,
    }
}

/// The name of a `LocalModelNodeGroup` and its nodes. A group that cannot be read may have any nodes.
fn node_group(object: DynamicObject) -> (String, Vec<NodeSelectorTerm>) {
    let terms = object.data.pointer("/spec/persistentVolumeSpec/nodeAffinity/required/nodeSelectorTerms");
    let terms = terms.and_then(|terms| Deserialize::deserialize(terms).ok()).unwrap_or_default();
    (object.metadata.name.unwrap_or_default(), terms)
}

/// The namespace that a review is about.
fn namespace_of(body: &[u8]) -> Option<Namespace> {
    #[derive(Deserialize)]
    struct Review {
        request: Request,
    }
    #[derive(Deserialize)]
    struct Request {
        namespace: Option<String>,
    }
    serde_json::from_slice::<Review>(body)
        .ok()?
        .request
        .namespace
        .map(|namespace| Namespace(namespace.into()))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn caches_on_later_pages_of_a_list_are_read_too() {
        let pages = tower::service_fn(|request: Request<Body>| async move {
            let is_first = !request.uri().query().unwrap_or_default().contains("continue=");
            let (name, next) = if is_first { ("first", "more") } else { ("second", "") };
            let items = json!([{"metadata": {"name": name}, "spec": {"sourceModelUri": "hf://a/b"}}]);
            let list = json!({"metadata": {"continue": next}, "items": items});
            Ok::<_, std::io::Error>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let facts = LiveFacts::new(Client::new(pages, "ns"), Args::default());
        let caches = facts.local_models(None).await.unwrap().caches.unwrap();
        assert_eq!(caches.iter().map(|cache| cache.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    }
}
