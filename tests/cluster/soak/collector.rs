//! A stand-in for the garbage collector: deletes the children of deleted services.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    api::Api,
    snapshot::{KINDS, list, namespace_of},
};

/// Deletes the children of deleted services in namespaces with this prefix. Returns the number of deletions.
pub(crate) fn collect(api: &Api, prefix: &str) -> usize {
    let mut owned = Vec::new();
    for (kind, root, plural) in KINDS.into_iter().filter(|(kind, ..)| *kind != "LLMInferenceService") {
        for object in list(api, root, plural) {
            let namespace = namespace_of(&object);
            let owners = owners(&object);
            if kind != "ClusterRoleBinding" && namespace.starts_with(prefix) && !owners.is_empty() {
                let name = object["metadata"]["name"].as_str().unwrap();
                owned.push((format!("/{root}/namespaces/{namespace}/{plural}/{name}"), owners));
            }
        }
    }
    // Services are listed after the children, so every owner either is in this list or has been deleted.
    let living: BTreeSet<String> = list(api, "apis/serving.kserve.io/v1alpha2", "llminferenceservices")
        .iter()
        .map(|service| service["metadata"]["uid"].as_str().unwrap().to_owned())
        .collect();
    let lost = owned.iter().filter(|(_, owners)| owners.is_disjoint(&living));
    lost.filter(|(path, _)| api.delete(path).status < 300).count()
}

fn owners(object: &Value) -> BTreeSet<String> {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let services = owners.filter(|owner| owner["kind"] == "LLMInferenceService");
    services.filter_map(|owner| Some(owner["uid"].as_str()?.to_owned())).collect()
}
