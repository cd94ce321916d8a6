//! What every model server's pod gets in any topology: devices, the model and its adapters, cache tiers, tracing.

use k8s_openapi::api::core::v1::{PodSpec, ServiceAccount};

use longboat_compose::Warning;

use super::{
    half::Half,
    kv_cache, lora,
    pod_spec::{MAIN, container_mut},
    runtime_adapters, security,
    storage::{self, Attachment},
};
use crate::{context::Context, tracing};

/// Completes a composed pod. `live` is the pod spec that runs now.
pub(super) fn complete(
    context: &Context,
    half: &Half,
    pod: &mut PodSpec,
    account: Option<&ServiceAccount>,
    live: Option<&PodSpec>,
) -> Result<Vec<Warning>, String> {
    let mut adapters = lora::adapters(context)?;
    // If adapters cannot be loaded at run time, the pod has them from the start, and the status says why.
    let loader = runtime_adapters::loader(context).and_then(Result::ok);
    if loader.is_some() {
        adapters.retain(|adapter| !runtime_adapters::is_loaded_at_runtime(adapter));
    }
    let mut attachment = Attachment::of_model(context, account, live);
    attachment.adapters = &adapters;
    let events = storage::attach(pod, &attachment).map_err(|error| error.to_string())?;
    if !adapters.is_empty() && container_mut(pod, MAIN).is_none() {
        return Err(storage::StorageError::NoMainContainer.to_string());
    }
    lora::enable(context, pod, &adapters, loader.is_some());
    if let Some(loader) = &loader {
        storage::loader::attach(context, pod, loader, &attachment).map_err(|error| error.to_string())?;
    }
    kv_cache::attach(half.spec, pod)?;
    if let Some(main) = container_mut(pod, MAIN) {
        tracing::server(context, main, half.traced_as());
    }
    // Last, because the containers that were added must comply, too.
    security::restrict(context, pod);
    Ok(events)
}
