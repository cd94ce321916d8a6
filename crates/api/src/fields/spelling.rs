//! Keys under our own domains that nothing reads: misspelt ones, and annotations among labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_key::nearest;

use super::placement::{METADATA, SPEC};
use crate::annotations::{DOMAINS, ROUTING, keys};
use crate::v1alpha2::LLMInferenceServiceSpec;

/// The most keys of a map that are looked at. An object may have thousands, and each is compared with every known key.
const MAX_KEYS: usize = 64;

/// Returns warnings about the keys of annotations and labels of a service or config.
pub(super) fn warnings(metadata: &ObjectMeta, spec: &LLMInferenceServiceSpec) -> Vec<String> {
    let prefill = spec.prefill.as_deref();
    let scheduler = spec.scheduler();
    let annotations = [
        (METADATA, metadata.annotations.as_ref()),
        (SPEC, Some(&spec.workload.annotations)),
        ("spec.prefill.annotations", prefill.map(|prefill| &prefill.annotations)),
        ("spec.router.scheduler.annotations", scheduler.map(|scheduler| &scheduler.annotations)),
    ];
    let labels = [
        ("metadata.labels", metadata.labels.as_ref()),
        ("spec.labels", Some(&spec.workload.labels)),
        ("spec.prefill.labels", prefill.map(|prefill| &prefill.labels)),
        ("spec.router.scheduler.labels", scheduler.map(|scheduler| &scheduler.labels)),
    ];
    let mut found = Vec::new();
    for (place, all) in annotations {
        found.extend(own_keys(all).filter(|key| !is_known(key)).filter_map(|key| {
            let meant = meant(key)?;
            Some(format!(
                "{place}[{key}] has no effect, because nothing reads this key: did you mean {meant}?"
            ))
        }));
    }
    for (place, all) in labels {
        found.extend(own_keys(all).filter_map(|key| {
            let meant = if is_known(key) { key } else { meant(key)? };
            let home = if ROUTING.contains(&meant) { SPEC } else { METADATA };
            Some(format!(
                "{place}[{key}] has no effect: {meant} is no label but an annotation; move it to {home}"
            ))
        }));
    }
    found
}

/// The keys under our own domains.
fn own_keys(all: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = &str> {
    let keys = all.into_iter().flatten().map(|(key, _)| key.as_str());
    keys.filter(|key| DOMAINS.iter().any(|domain| key.starts_with(domain))).take(MAX_KEYS)
}

fn is_known(key: &str) -> bool {
    keys().any(|known| known == key || known.ends_with(['-', '.']) && key.starts_with(known))
}

/// Returns the known key that is probably meant: the same name under another of our domains, or a similar name. Other keys may be
/// those of KServe's other kinds.
fn meant(key: &str) -> Option<&'static str> {
    let (_, name) = key.split_once('/')?;
    let exact = keys().filter(|known| !known.ends_with(['-', '.']));
    let named: Vec<(&str, &str)> =
        exact.filter_map(|known| Some((known.split_once('/')?.1, known))).collect();
    let meant = nearest(named.iter().map(|(name, _)| *name), name)?;
    named.iter().find(|(name, _)| *name == meant).map(|(_, known)| *known)
}
