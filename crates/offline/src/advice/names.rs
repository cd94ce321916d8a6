//! References to children by names that they do not have, because the names of services with long names are hashed.

use longboat_api::{child_name, names::suffix, v1alpha2::LLMInferenceService};
use longboat_compose::{Effective, Origin};
use longboat_key::{Name, Namespace};
use longboat_plan::Snapshot;
use serde_json::Value;

use super::Advice;

/// The suffixes of children to which users refer.
const REFERABLE: [&str; 6] = [
    suffix::WORKLOAD_SERVICE,
    suffix::INFERENCE_POOL,
    suffix::EPP_SERVICE,
    suffix::TOKENIZER,
    suffix::CERTIFICATES,
    suffix::EPP_SERVICE_ACCOUNT,
];

/// A child's name as it would be without hashing, and its real name.
struct HashedName {
    written: String,
    real: String,
    suffix: &'static str,
}

/// Finds names of children that only a service with a shorter name would have.
pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    effective: &Effective,
) -> Vec<Advice> {
    let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let exists = |written: &str| {
        snapshot.services.get(namespace, Name(written)).is_some()
            || snapshot.inference_pools.get(namespace, Name(written)).is_some()
    };
    let hashed: Vec<HashedName> = REFERABLE
        .into_iter()
        .map(|suffix| HashedName {
            written: format!("{name}{suffix}"),
            real: child_name(&name, suffix),
            suffix,
        })
        .filter(|child| child.written != child.real && !exists(&child.written))
        .collect();
    // Only long names are hashed, and computing provenance is expensive.
    if hashed.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (path, leaf) in effective.provenance().iter() {
        let Value::String(text) = &leaf.value else { continue };
        for HashedName { written, real, suffix } in
            hashed.iter().filter(|child| mentions(text, &child.written))
        {
            let expression = format!("{{{{ ChildName .ObjectMeta.Name `{suffix}` }}}}");
            let hint = match leaf.origin {
                Origin::Config(_) | Origin::Runtime(_) => format!("write `{expression}`"),
                Origin::Service | Origin::Derived => format!(
                    "write `{real}`, or move the field to an LLMInferenceServiceConfig in spec.baseRefs and write \
                     `{expression}` there"
                ),
            };
            all.push(Advice::warning(
                format!("spec.{path}"),
                "HashedName",
                format!(
                    "names {written}, which will not exist: names have at most 63 characters, so the controller shortens \
                     this one to {real}"
                ),
                hint,
            ));
        }
    }
    all
}

/// Whether a text contains a name as a whole, and not as a part of a longer name.
fn mentions(text: &str, name: &str) -> bool {
    let continues = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(continues) && !text[at + name.len()..].starts_with(continues))
}
