//! The model, its storage, tracing and layers: rows below `spec`.

use longboat_download::address::Scheme;

use super::row::{Row, Site};
use crate::v1alpha2::{LoraSpec, TracingSpec};

/// The sampler of the preset.
const DEFAULT_SAMPLER: &str = "parentbased_traceidratio";
/// The samplers of OpenTelemetry's environment variables.
const SAMPLERS: [&str; 9] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
    "parentbased_jaeger_remote",
    "jaeger_remote",
    "xray",
];
/// Those that take no argument.
const SAMPLERS_WITHOUT_ARGUMENT: [&str; 4] =
    ["always_on", "always_off", "parentbased_always_on", "parentbased_always_off"];

pub(super) const ROWS: &[Row] = &[
    Row::with_effect("model.uri", "fetched (hf, s3, gs, http), mounted (pvc) or run beside the server (oci); else a condition").with_warning(
        |site| {
            let off = site.storage_is_off() && !site.model().uri.is_empty();
            off.then_some(())?;
            site.note(
                "model.uri",
                "has no effect while spec.storageInitializer.enabled is false: mount the model at /mnt/models yourself",
            )
        },
    ),
    Row::with_effect("model.name", "the name that clients ask for; model of routes and of /v1/models"),
    Row::with_effect("model.lora.adapters", "each is fetched or mounted below /mnt/lora and given to the server by flag").with_warning(adapters),
    Row::with_effect("model.lora.maxRank", "--max-lora-rank")
        .with_warning(|site| limit(site, "model.lora.maxRank", |lora| lora.max_rank)),
    Row::with_effect("model.lora.maxAdapters", "--max-loras")
        .with_warning(|site| limit(site, "model.lora.maxAdapters", |lora| lora.max_adapters)),
    Row::with_effect("model.lora.maxCpuAdapters", "--max-cpu-loras")
        .with_warning(|site| limit(site, "model.lora.maxCpuAdapters", |lora| lora.max_cpu_adapters)),
    // That nothing is decrypted for oci:// and pvc:// is said by validation, in the reference's words.
    Row::with_effect("model.confidential.enabled", "CONFIDENTIAL_ENABLED of the storage initializer").with_warning(|site| {
        let enabled = site.model().confidential.as_ref().is_some_and(|confidential| confidential.enabled);
        (enabled && site.storage_is_off()).then_some(())?;
        site.note("model.confidential", "has no effect while spec.storageInitializer.enabled is false: nothing is fetched")
    }),
    Row::with_effect("model.confidential.resourceId", "CONFIDENTIAL_RESOURCE_ID of the storage initializer").with_warning(|site| {
        let confidential = site.model().confidential.as_ref()?;
        let named = confidential.resource_id.as_ref().is_some_and(|id| !id.is_empty());
        (named && !confidential.enabled).then_some(())?;
        site.note("model.confidential.resourceId", "has no effect while spec.model.confidential.enabled is false")
    }),
    Row::with_effect("storageInitializer.enabled", "false leaves out all model storage").with_warning(|site| {
        let asked = site.spec.storage_initializer.as_ref()?.enabled?;
        let scheme = site.scheme();
        let is_mounted = matches!(scheme, Scheme::Claim | Scheme::Oci | Scheme::OciNative);
        (asked && is_mounted).then_some(())?;
        site.note(
            "storageInitializer.enabled",
            &format!("true has no effect: models from {scheme}:// are not fetched by an initializer"),
        )
    }),
    Row::with_effect("runtime", "selects the preset of its engine; the lowest layer of template; else a condition"),
    Row::with_effect("tracing.exporterEndpoint", "OTEL_EXPORTER_OTLP_ENDPOINT, --otlp-traces-endpoint").with_warning(|site| {
        tracing(site)?.exporter_endpoint.as_ref().filter(|endpoint| endpoint.is_empty())?;
        site.note("tracing.exporterEndpoint", "is empty: the model servers send no traces, only the scheduler does")
    }),
    Row::with_effect("tracing.sampler", "OTEL_TRACES_SAMPLER").with_warning(|site| {
        let sampler = tracing(site)?.sampler.as_deref()?;
        let is_known = sampler.is_empty() || SAMPLERS.contains(&sampler) || sampler.contains("{{");
        (!is_known).then_some(())?;
        let text =
            format!("is {sampler:?}, which is no sampler of OpenTelemetry: write one of {}", SAMPLERS.join(", "));
        site.note("tracing.sampler", &text)
    }),
    Row::with_effect("tracing.samplerArg", "OTEL_TRACES_SAMPLER_ARG").with_warning(|site| {
        let tracing = tracing(site)?;
        let argument = tracing.sampler_arg.as_ref().filter(|argument| !argument.is_empty())?;
        // A config may set another one.
        let sampler = tracing.sampler.as_deref().or_else(|| site.whole.then_some(DEFAULT_SAMPLER))?;
        if SAMPLERS_WITHOUT_ARGUMENT.contains(&sampler) {
            let text = format!("has no effect: the sampler {sampler} takes no argument");
            return site.note("tracing.samplerArg", &text);
        }
        let is_ratio = argument.contains("{{") || argument.parse().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio));
        (sampler.ends_with("traceidratio") && !is_ratio).then_some(())?;
        let text = format!("is {argument:?}, and the sampler {sampler} takes a ratio from 0 to 1: write for example \"0.1\"");
        site.note("tracing.samplerArg", &text)
    }),
    Row::with_effect("tracing.exporter", "OTEL_TRACES_EXPORTER"),
    Row::with_effect("baseRefs[].name", "the config is merged; one that is missing is a condition"),
];

/// A limit that is set although there are no adapters to limit.
fn limit(site: &Site<'_>, path: &str, limit: fn(&LoraSpec) -> Option<i32>) -> Option<String> {
    let lora = site.model().lora.as_ref().filter(|lora| site.whole && lora.adapters.is_empty())?;
    limit(lora)?;
    site.note(path, "has no effect without spec.model.lora.adapters")
}

fn tracing<'a>(site: &Site<'a>) -> Option<&'a TracingSpec> {
    site.spec.tracing.as_ref()
}

/// The schema leaves adapters open; this says which of their fields do nothing.
fn adapters(site: &Site<'_>) -> Option<String> {
    let adapters = &site.model().lora.as_ref()?.adapters;
    if !adapters.is_empty() && site.mentions(&["--lora-modules"]) {
        return site.note(
            "model.lora.adapters",
            "are not given to the model server: its own arguments have --lora-modules already",
        );
    }
    let nested = adapters.iter().enumerate().find_map(|(i, adapter)| {
        let field = if adapter.lora.is_some() { "lora" } else { "confidential" };
        (adapter.lora.is_some() || adapter.confidential.is_some())
            .then(|| format!("model.lora.adapters[{i}].{field}"))
    })?;
    site.note(&nested, "has no effect: only name and uri of an adapter are used")
}
