//! Pod templates: their comparison, and the hash in the name of a ReplicaSet.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use longboat_key::names::GENERATED_ALPHABET;

/// The label that distinguishes the pods of different templates.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Whether a ReplicaSet's template is the Deployment's, apart from the hash label.
pub(super) fn same(of_set: Option<&PodTemplateSpec>, of_deployment: &PodTemplateSpec) -> bool {
    of_set.is_some_and(|of_set| without_hash(of_set) == without_hash(of_deployment))
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let meta = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut meta.labels {
        labels.remove(HASH_LABEL);
    }
    meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
    meta.annotations = meta.annotations.take().filter(|annotations| !annotations.is_empty());
    // The server may have set this time.
    meta.creation_timestamp = None;
    template
}

/// Hashes a template for the name of its ReplicaSet. Equal templates have equal hashes; `collisions` changes the hash.
///
/// Kubernetes hashes a dump of its Go structures, which only Go code can reproduce. So only the form of the hash is the
/// same.
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    // A template can always be written as JSON, because its map keys are strings.
    let text = serde_json::to_string(&without_hash(template)).unwrap_or_default();
    let salt = collisions.map(|count| count.to_string()).unwrap_or_default();
    let digest = text
        .bytes()
        .chain(salt.bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    digest
        .to_string()
        .bytes()
        .map(|digit| char::from(GENERATED_ALPHABET[usize::from(digit) % GENERATED_ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template(value: Value) -> PodTemplateSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_hash_label_makes_no_difference_and_everything_else_does() {
        let plain =
            template(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}));
        let labelled = template(
            json!({"metadata": {"labels": {"a": "b", HASH_LABEL: "x"}, "creationTimestamp": null}, "spec": {"containers": [{"name": "c"}]}}),
        );
        let other =
            template(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "d"}]}}));
        assert!(same(Some(&labelled), &plain));
        assert!(!same(Some(&labelled), &other));
        assert_eq!(hash(&plain, None), hash(&labelled, None));
        assert_ne!(hash(&plain, None), hash(&other, None));
        assert_ne!(hash(&plain, None), hash(&plain, Some(1)));
        assert!(hash(&plain, None).bytes().all(|byte| GENERATED_ALPHABET.contains(&byte)));
    }
}
