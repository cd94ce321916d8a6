//! Rules for LoRA adapters.

use super::Report;
use crate::{
    lora_paths::{Collision, mount_paths},
    v1alpha2::LLMInferenceService,
};

const LORA: &str = "spec.model.lora";
/// The longest name of an adapter, in bytes: it names a folder, with a hash of nine bytes if adapters would share it.
const MAX_NAME_BYTES: usize = 255 - 9;

/// Checks limits and names of adapters.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    let model = &service.spec.model;
    let Some(lora) = &model.lora else { return };
    let limits = [
        ("maxRank", lora.max_rank),
        ("maxAdapters", lora.max_adapters),
        ("maxCpuAdapters", lora.max_cpu_adapters),
    ];
    for (field, limit) in limits {
        if let Some(limit) = limit.filter(|n| *n < 1) {
            report.invalid(format!("{LORA}.{field}"), &limit, &format!("{field} must be at least 1"));
        }
    }
    if let (Some(held), Some(at_once)) = (lora.max_cpu_adapters, lora.max_adapters)
        && held < at_once
    {
        let message = format!(
            "must be at least maxAdapters, which is {at_once}: the server keeps the adapters of a whole batch in memory"
        );
        report.invalid(format!("{LORA}.maxCpuAdapters"), &held, &message);
    }
    // The name of the service is the default of the model's.
    let base = model.name.as_deref().or(service.metadata.name.as_deref()).unwrap_or_default();
    let mut seen: Vec<(&str, usize)> = Vec::with_capacity(lora.adapters.len());
    for (i, adapter) in lora.adapters.iter().enumerate() {
        let field = format!("{LORA}.adapters[{i}].name");
        let name = adapter.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            report.required(field, "adapter name is required");
            continue;
        }
        if name == "." || name == ".." {
            report.invalid(
                field,
                &name,
                "adapter name must not include \".\" or \"..\" (path traversal risk)",
            );
            continue;
        }
        if name.len() > MAX_NAME_BYTES {
            let message =
                format!("adapter name must have at most {MAX_NAME_BYTES} bytes, because it names a folder");
            report.invalid(&field, &name, &message);
        }
        match seen.iter().find(|(other, _)| *other == name) {
            Some((_, first)) => {
                report.invalid(&field, &name, &format!("duplicate name (same as adapters[{first}])"));
            }
            None => seen.push((name, i)),
        }
        if name == base {
            report.invalid(field, &name, &format!("adapter name must differ from base model name {base:?}"));
        }
    }
    let names: Vec<&str> =
        lora.adapters.iter().map(|adapter| adapter.name.as_deref().unwrap_or_default()).collect();
    // Duplicates and missing names were reported above.
    if let Err(collision @ Collision::Path { .. }) = mount_paths(&names) {
        report.invalid(format!("{LORA}.adapters"), &names, &collision.to_string());
    }
}
