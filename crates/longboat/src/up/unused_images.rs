//! Commands of `--image` that no container uses: the name is probably misspelt.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use longboat_node::container::roles::repository_name;

/// The most pods that are looked at in one request.
const MAX_PODS: u32 = 500;

/// Returns a sentence for each of the images that no container of a pod has.
pub(crate) async fn unused_image_notes(
    client: &Client,
    images: &[(String, Vec<String>)],
) -> anyhow::Result<Vec<String>> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default().limit(MAX_PODS)).await?;
    // Of more pods than these, another one may have the image.
    if pods.metadata.continue_.is_some_and(|token| !token.is_empty()) {
        return Ok(Vec::new());
    }
    let names = images.iter().map(|(name, _)| name.as_str());
    Ok(unused(names, &pods.items).into_iter().map(sentence).collect())
}

fn unused<'n>(names: impl Iterator<Item = &'n str>, pods: &[Pod]) -> Vec<&'n str> {
    let containers = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref())
        .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let used: BTreeSet<&str> =
        containers.filter_map(|container| container.image.as_deref()).map(repository_name).collect();
    names.filter(|name| !used.contains(name)).collect()
}

fn sentence(name: &str) -> String {
    format!(
        "no container of a pod has an image named `{name}`, so the command of `--image {name}=…` does not run"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_is_used_by_any_container_with_its_name() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "init", "image": "ghcr.io/a/setup@sha256:00"}],
            "containers": [{"name": "main", "image": "registry:5000/b/echo:v1"}, {"name": "other"}],
        }}))
        .unwrap();
        assert_eq!(unused(["echo", "setup", "ehco"].into_iter(), &[pod]), ["ehco"]);
    }
}
