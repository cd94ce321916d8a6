//! KV cache offloading that the vLLM in the image does not have.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use super::{super::Advice, release};

/// The release from which on the start scripts of presets give vLLM the argument for offloading.
const FIRST: (u32, u32) = (0, 22);

pub(super) fn check(
    path: &str,
    main: &Container,
    is_preset: bool,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let half = if path.starts_with("spec.prefill") { "spec.prefill" } else { "spec" };
    let workload = if half == "spec" { &spec.workload } else { spec.prefill.as_deref()? };
    workload.kv_cache_offloading.as_ref()?;
    let release = release::before(main, FIRST)?;
    let (major, minor) = FIRST;
    let effect =
        if is_preset { "nothing is offloaded" } else { "vLLM does not know the connector's settings" };
    Some(Advice::warning(
        format!("{half}.kvCacheOffloading"),
        "NotOffloaded",
        format!("needs vLLM {major}.{minor} or later, and the image of {path} has {release}: {effect}"),
        format!("use an image with vLLM {major}.{minor} or later"),
    ))
}
