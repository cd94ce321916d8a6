//! LoRA adapters that are loaded while pods run. The list of adapters is in a ConfigMap, not in the pod template, so that a change of the
//! adapters replaces no pod. A container beside the engine, the loader, follows the list (`crates/fetch/src/adapters`).

use k8s_openapi::api::core::v1::ConfigMap;
use longboat_api::{
    annotations::RUNTIME_ADAPTERS, engine::Engine, labels::component, safe_name::short_hash, switches,
};
use longboat_compose::{Adapter, AdapterSource, platform::Images};
use longboat_download::adapters::{LIST_FILE, ListedAdapter};

use super::{
    half::Half,
    lora,
    pod_spec::{MAIN, container},
};
use crate::{context::Context, labels, names};

/// What the pods need to load adapters while they run.
pub(crate) struct Loader<'a> {
    /// The image of the loader.
    pub(crate) image: &'a str,
    /// The variable that opens the engine's API for adapters.
    pub(crate) variable: &'static str,
}

/// Returns what loads the adapters while pods run. `None` if the annotation does not ask for that.
///
/// # Errors
/// Why this service cannot load adapters at run time. Then its pods have them from the start, as without the annotation.
pub(crate) fn loader<'a>(context: &Context<'a>) -> Option<Result<Loader<'a>, String>> {
    let annotations = context.service.metadata.annotations.as_ref();
    // Admission refuses other words.
    let is_on = switches::value(annotations, RUNTIME_ADAPTERS).unwrap_or_default();
    is_on.then(|| of_service(context))
}

fn of_service<'a>(context: &Context<'a>) -> Result<Loader<'a>, String> {
    let engine = Engine::of_spec(context.spec);
    let flags = engine.lora.as_ref();
    let Some((flags, variable)) = flags.and_then(|flags| Some((flags, flags.runtime_variable?))) else {
        return Err(format!("engine {} cannot load adapters while it runs", engine.name));
    };
    let Images::Ours(image) = &context.snapshot.platform.images else {
        return Err("the platform uses the images of the reference, which have no loader".to_owned());
    };
    if !context.spec.storage_initializer_enabled() {
        return Err("spec.storageInitializer.enabled is false, so nothing may be downloaded".to_owned());
    }
    for half in Half::all(context.spec) {
        let field = half.field();
        if half.is_group() {
            return Err(format!(
                "{field}.worker is set: an adapter would have to be on all pods of a group before the engine loads it"
            ));
        }
        let main = half.spec.template.as_deref().and_then(|pod| container(pod, MAIN));
        if main.is_some_and(|main| lora::loads_its_own(main, engine, flags)) {
            return Err(format!("container {MAIN} of {field}.template has arguments for its own adapters"));
        }
    }
    Ok(Loader { image, variable })
}

/// Whether the loader gets this adapter. Those on claims are mounted, which only a new pod can do.
pub(super) fn is_loaded_at_runtime(adapter: &Adapter) -> bool {
    adapter.source == AdapterSource::Download
}

/// Returns the list for the loaders. `None` if there are none.
///
/// # Errors
/// If the adapters cannot be resolved.
pub(crate) fn listed(context: &Context) -> Result<Option<Vec<ListedAdapter>>, String> {
    if !matches!(loader(context), Some(Ok(_))) {
        return Ok(None);
    }
    let adapters = lora::adapters(context)?;
    let listed = adapters.iter().filter(|adapter| is_loaded_at_runtime(adapter)).map(|adapter| {
        let segment = adapter.mount_path.rsplit('/').next().unwrap_or_default();
        let uri = adapter.address.as_str();
        ListedAdapter {
            name: adapter.name.clone(),
            models: vec![adapter.name.clone(), context.published_name(&adapter.name)],
            uri: uri.to_owned(),
            // Another address is another folder: the engine still reads the old files while the new ones arrive.
            folder: format!("{segment}-{}", short_hash(uri)),
        }
    });
    Ok(Some(listed.collect()))
}

/// Returns the ConfigMap with the list.
///
/// # Errors
/// If the adapters cannot be resolved.
pub(super) fn config_map(context: &Context) -> Result<Option<ConfigMap>, String> {
    let Some(listed) = listed(context)? else { return Ok(None) };
    let text = serde_json::to_string_pretty(&listed).map_err(|error| error.to_string())?;
    let metadata =
        context.child_metadata(names::adapters(context.name), labels::of(component::WORKLOAD, context.name));
    Ok(Some(ConfigMap {
        metadata,
        data: Some([(LIST_FILE.to_owned(), text)].into()),
        ..ConfigMap::default()
    }))
}
