//! LoRA adapters: the arguments that name them to the server, and the caches that hold them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::{
    annotations::{LOCAL_MODEL_LORA, NODE_GROUP},
    engine::{Engine, LoraFlags},
    foreign::localmodelcache::LocalModelCacheStatus,
};
use longboat_compose::{Adapter, AdapterSource};
use longboat_key::{Name, Namespace};
use serde::Deserialize;

use super::{
    account,
    pod_spec::{MAIN, container_mut},
    storage::cached,
};
use crate::context::Context;

/// The cache of an adapter, as admission writes it into the annotation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CacheEntry {
    /// Name of the LocalModelCache, or of the LocalModelNamespaceCache.
    cache: String,
    /// Namespace of a LocalModelNamespaceCache.
    namespace: String,
    /// The group of nodes, if it is another one than that of the service's annotation or the first of the cache.
    node_group: String,
    /// The claim. Former versions of KServe (`pvcName`) and of Longboat wrote it.
    #[serde(alias = "pvcName")]
    claim: String,
    /// The address that the cache has. Written together with the claim.
    source_uri: String,
}

// === impl CacheEntry ===

impl CacheEntry {
    /// The claim with the adapter, and the address that the cache has.
    fn resolve(&self, context: &Context) -> Result<(String, String), String> {
        if !self.claim.is_empty() && !self.source_uri.is_empty() {
            return Ok((self.claim.clone(), self.source_uri.clone()));
        }
        let Self { cache, namespace, node_group, .. } = self;
        let (snapshot, name) = (context.snapshot, Name(cache.as_str()));
        let (kind, spec, status) = if namespace.is_empty() {
            let found = snapshot.local_model_caches.get(Namespace(""), name);
            let kind = format!("LocalModelCache {cache}");
            (kind, found.map(|found| &found.spec), found.and_then(|found| found.status.as_ref()))
        } else {
            let found = snapshot.local_model_namespace_caches.get(Namespace(namespace), name);
            let kind = format!("LocalModelNamespaceCache {namespace}/{cache}");
            (kind, found.map(|found| &found.spec), found.and_then(|found| found.status.as_ref()))
        };
        let Some(spec) = spec else {
            return Err(format!(
                "cannot get {kind}, which is in annotation {LOCAL_MODEL_LORA}: it does not exist; create it, or change the \
                 service, so that admission writes the annotation again"
            ));
        };
        let source = spec.source_model_uri.clone();
        if let Some(claim) = spec.shared_claim() {
            if status.is_some_and(LocalModelCacheStatus::is_ready) {
                return Ok((claim.to_owned(), source));
            }
            return Err(format!(
                "{kind} is not ready: its model is not on PersistentVolumeClaim {claim} yet"
            ));
        }
        let group = Some(node_group.as_str())
            .filter(|group| !group.is_empty())
            .or_else(|| context.annotation(NODE_GROUP))
            .or_else(|| spec.node_groups.first().map(String::as_str))
            .ok_or_else(|| format!("{kind} has no node group: set its spec.nodeGroups"))?;
        Ok((format!("{cache}-{group}"), source))
    }
}

/// The adapters of the composed spec, by name. Those that are cached on nodes are on the claim of their cache.
pub(super) fn adapters(context: &Context) -> Result<Vec<Adapter>, String> {
    let mut adapters = longboat_compose::adapters(context.spec).map_err(|error| error.to_string())?;
    let Some(text) = context.annotation(LOCAL_MODEL_LORA).filter(|text| !text.is_empty()) else {
        return Ok(adapters);
    };
    let caches: BTreeMap<String, CacheEntry> = serde_json::from_str(text)
        .map_err(|error| format!("annotation {LOCAL_MODEL_LORA} cannot be read: {error}"))?;
    for adapter in &mut adapters {
        let Some(entry) = caches.get(&adapter.name) else { continue };
        let found = entry.resolve(context);
        let (claim, source_uri) =
            found.map_err(|problem| format!("LoRA adapter {:?}: {problem}", adapter.name))?;
        if adapter.address.as_str().starts_with(source_uri.trim_end_matches('/')) {
            adapter.address = cached(&adapter.address, &source_uri, &claim);
            adapter.source = AdapterSource::Claim;
        }
    }
    Ok(adapters)
}

/// Prepends the flags for adapters to the server's arguments, unless the user loads adapters in their own way. If the engine does
/// not know adapters by the model of a request, the routing sidecar tells it the adapter.
/// `takes_more`: whether the engine must be ready for adapters that come later.
pub(super) fn enable(context: &Context, pod: &mut PodSpec, adapters: &[Adapter], takes_more: bool) {
    let engine = Engine::of_spec(context.spec);
    let Some(flags) = &engine.lora else { return };
    // A hand-written pod without the sidecar has its own way to its adapters.
    let has_sidecar = context.spec.workload.template.as_deref().is_some_and(account::has_routing_sidecar);
    if (adapters.is_empty() && !takes_more) || (flags.request_field.is_some() && !has_sidecar) {
        return;
    }
    let Some(main) = container_mut(pod, MAIN).filter(|main| !loads_its_own(main, engine, flags)) else {
        return;
    };
    let limits = context.spec.model.lora.as_ref();
    let flag = |name: &str, value: Option<i32>| value.map(|value| format!("{name}={value}"));
    let mut args = vec![flags.enable.to_owned()];
    args.extend(flag(flags.max_rank, limits.and_then(|limits| limits.max_rank)));
    args.extend(flag(flags.max_adapters, limits.and_then(|limits| limits.max_adapters)));
    args.extend(flag(flags.max_cpu_adapters, limits.and_then(|limits| limits.max_cpu_adapters)));
    if !adapters.is_empty() {
        args.push(flags.modules.to_owned());
    }
    let [name_field, path_field] = flags.module_fields;
    for adapter in adapters {
        let path = json_string(adapter.mount_path.as_str());
        // If the sidecar names the adapter, one name is enough, because each name takes memory.
        let published = flags.request_field.is_none().then(|| context.published_name(&adapter.name));
        for name in std::iter::once(adapter.name.clone()).chain(published) {
            let module = format!("{{\"{name_field}\":{},\"{path_field}\":{path}}}", json_string(&name));
            // A shell that evaluates the arguments once more removes the single quotes.
            args.push(if flags.is_evaluated { format!("'{module}'") } else { module });
        }
    }
    args.append(main.args.get_or_insert_default());
    main.args = Some(args);
    if let Some(field) = flags.request_field {
        name_adapters(context, pod, adapters, field);
    }
}

/// Lets the routing sidecar set `field` of each request for an adapter.
fn name_adapters(context: &Context, pod: &mut PodSpec, adapters: &[Adapter], field: &str) {
    let mut sidecars = pod.init_containers.iter_mut().flatten();
    let Some(sidecar) = sidecars.find(|container| container.name == account::ROUTING_SIDECAR) else { return };
    let of_adapter = |adapter: &Adapter| {
        let fields = format!("{{\"{field}\":{}}}", json_string(&adapter.name));
        let names = [adapter.name.clone(), context.published_name(&adapter.name)];
        names.map(|name| format!("{}:{fields}", json_string(&name)))
    };
    let models: Vec<String> = adapters.iter().flat_map(of_adapter).collect();
    let args = sidecar.args.get_or_insert_default();
    args.push(format!("--model-fields={{{}}}", models.join(",")));
}

/// A text as a JSON string that is safe between the single quotes of a shell, and in which the kubelet finds no `$(NAME)`.
fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\'', r"\u0027").replace('$', r"\u0024")
}

pub(super) fn loads_its_own(main: &Container, engine: &Engine, flags: &LoraFlags) -> bool {
    let words = main.command.iter().chain(&main.args).flatten();
    let literal = main
        .env
        .iter()
        .flatten()
        .filter(|variable| engine.arguments == Some(variable.name.as_str()))
        .filter_map(|variable| variable.value.as_ref());
    words.chain(literal).any(|text| text.contains(flags.modules))
}
