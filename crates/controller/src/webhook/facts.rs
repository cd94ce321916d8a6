//! What the answers depend on beside the objects: the platform's settings and the models cached on nodes.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use longboat_admission::{Action, Facts, Hook, LocalModels, ModelCache, Subject};
use longboat_api::{names, v1alpha2::GROUP};
use longboat_compose::{Platform, platform::PlatformError};
use serde::Deserialize;

use crate::{context::Context, error::has_code};

/// Caches of models that are looked at. There is one per model, not one per service.
const LIMIT: u32 = 1000;

/// Where facts come from.
#[derive(Clone)]
pub(super) struct Source {
    context: Arc<Context>,
}

// === impl Source ===

impl Source {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    /// The facts for one request.
    ///
    /// Configs are checked against the settings as they are now, not as a cache has them: whoever installs a platform
    /// writes both within milliseconds (contract 05).
    pub(super) async fn facts(&self, hook: Hook, body: &[u8]) -> Result<Facts, kube::Error> {
        let args = &self.context.args;
        let mut facts = Facts {
            system_namespace: args.system_namespace.clone(),
            preset_prefix: args.preset_prefix.clone(),
            prevent_preset_deletion: args.prevent_preset_deletion,
            platform: self.context.platform().map(|platform| platform.as_ref().clone()),
            local_models: LocalModels::default(),
        };
        let marks = (hook.subject, hook.action) == (Subject::Service, Action::Mutate);
        // It may be there all the same: the cache is filled a moment after the server starts.
        let missing = matches!(facts.platform, Err(PlatformError::Missing { .. }));
        if hook.subject == Subject::Config || (marks && missing) {
            facts.platform = self.platform().await?;
        }
        let enabled = facts.platform.as_ref().is_ok_and(|platform| platform.local_model);
        if enabled && marks {
            facts.local_models.caches = self.model_caches(namespace_of(body)).await?;
        }
        Ok(facts)
    }

    async fn platform(&self) -> Result<Result<Platform, PlatformError>, kube::Error> {
        let namespace = &self.context.args.system_namespace;
        let api: Api<ConfigMap> = Api::namespaced(self.context.client.clone(), namespace);
        let Some(found) = api.get_opt(names::PLATFORM_CONFIG_MAP).await? else {
            return Ok(Err(PlatformError::Missing { name: names::PLATFORM_CONFIG_MAP }));
        };
        let none = BTreeMap::new();
        Ok(Platform::parse(found.data.as_ref().unwrap_or(&none), namespace))
    }

    /// The caches of models, those of `namespace` and those of the whole cluster; none where there is no such kind.
    async fn model_caches(&self, namespace: Option<String>) -> Result<Option<Vec<ModelCache>>, kube::Error> {
        let client = &self.context.client;
        let Some(mut all) = list(client, "LocalModelCache", None).await? else { return Ok(None) };
        if let Some(namespace) = namespace {
            all.extend(list(client, "LocalModelNamespaceCache", Some(&namespace)).await?.unwrap_or_default());
        }
        Ok(Some(all))
    }
}

async fn list(
    client: &Client,
    kind: &str,
    namespace: Option<&str>,
) -> Result<Option<Vec<ModelCache>>, kube::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Spec {
        source_model_uri: String,
        node_groups: Vec<String>,
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let found = match api.list(&ListParams::default().limit(LIMIT)).await {
        Ok(found) => found,
        Err(error) if has_code(&error, 404) => return Ok(None),
        Err(error) => return Err(error),
    };
    let caches = found.items.into_iter().map(|object| {
        let spec = object.data.get("spec").and_then(|spec| Spec::deserialize(spec).ok()).unwrap_or_default();
        ModelCache {
            name: object.metadata.name.unwrap_or_default(),
            namespace: object.metadata.namespace,
            source_model_uri: spec.source_model_uri,
            node_groups: spec.node_groups,
        }
    });
    Ok(Some(caches.collect()))
}

/// The namespace that a review is about.
fn namespace_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Review {
        request: Request,
    }
    #[derive(Deserialize)]
    struct Request {
        namespace: Option<String>,
    }
    serde_json::from_slice::<Review>(body).ok()?.request.namespace
}
