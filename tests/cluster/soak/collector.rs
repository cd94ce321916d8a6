//! What the garbage collector does on a cluster: removes what has lost its owner.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    api::Api,
    picture::{KINDS, list, namespace_of},
};

/// Removes what services owned that are gone, in namespaces that begin like this; how much that was.
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
    // Looked at last: whoever owns what was found is there by now, or gone.
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
