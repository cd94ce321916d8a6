//! Keys that a Secret or a ConfigMap of the same manifests does not have.

use std::collections::BTreeSet;

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_key::{Name, Namespace};
use longboat_manifest::nearest;
use longboat_plan::Snapshot;

use super::Advice;
use crate::pods::{containers_of, pods};

/// A key of an object, and the field that names it.
struct KeyReference<'a> {
    path: String,
    kind: &'static str,
    name: &'a str,
    key: &'a str,
}

/// Finds references of pods to keys that are not there. Objects that are not in the manifests may have them.
pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Vec<Advice> {
    let namespace = Namespace::of(&service.metadata);
    let references = references(spec);
    references.iter().filter_map(|reference| missing(snapshot, namespace, reference)).collect()
}

fn references(spec: &LLMInferenceServiceSpec) -> Vec<KeyReference<'_>> {
    let is_needed = |optional: Option<bool>| optional != Some(true);
    let mut all = Vec::new();
    for (path, pod) in pods(spec) {
        for (path, container) in containers_of(&path, pod) {
            for variable in container.env.iter().flatten() {
                let path = format!("{path}.env[name={}].valueFrom", variable.name);
                let source = variable.value_from.as_ref();
                if let Some(one) = source.and_then(|source| source.secret_key_ref.as_ref())
                    && is_needed(one.optional)
                {
                    let path = format!("{path}.secretKeyRef.key");
                    all.push(KeyReference { path, kind: "Secret", name: &one.name, key: &one.key });
                }
                if let Some(one) = source.and_then(|source| source.config_map_key_ref.as_ref())
                    && is_needed(one.optional)
                {
                    let path = format!("{path}.configMapKeyRef.key");
                    all.push(KeyReference { path, kind: "ConfigMap", name: &one.name, key: &one.key });
                }
            }
        }
        for volume in pod.volumes.iter().flatten() {
            let secret = volume.secret.as_ref().filter(|secret| is_needed(secret.optional));
            let secret = secret
                .map(|one| ("Secret", "secret", one.secret_name.as_deref().unwrap_or_default(), &one.items));
            let map = volume.config_map.as_ref().filter(|map| is_needed(map.optional));
            let map = map.map(|one| ("ConfigMap", "configMap", one.name.as_str(), &one.items));
            for (kind, field, name, items) in secret.into_iter().chain(map) {
                for (at, item) in items.iter().flatten().enumerate() {
                    let path = format!("{path}.volumes[name={}].{field}.items[{at}].key", volume.name);
                    all.push(KeyReference { path, kind, name, key: &item.key });
                }
            }
        }
    }
    all
}

fn missing(snapshot: &Snapshot, namespace: Namespace<&str>, reference: &KeyReference<'_>) -> Option<Advice> {
    let KeyReference { path, kind, name, key } = reference;
    let known: BTreeSet<String> = if *kind == "Secret" {
        let found = snapshot.secrets.get(namespace, Name(*name))?;
        let (data, text) = (found.data.iter().flatten(), found.string_data.iter().flatten());
        data.map(|(key, _)| key).chain(text.map(|(key, _)| key)).cloned().collect()
    } else {
        let found = snapshot.config_maps.get(namespace, Name(*name))?;
        let (data, bytes) = (found.data.iter().flatten(), found.binary_data.iter().flatten());
        data.map(|(key, _)| key).chain(bytes.map(|(key, _)| key)).cloned().collect()
    };
    // Something else fills an object that is empty.
    if known.is_empty() || known.contains(*key) {
        return None;
    }
    let hint = match nearest(known.iter().map(String::as_str), key) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("its keys: {}", known.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
    };
    let message = format!(
        "is `{key}`, which {kind} {namespace}/{name} does not have, so no kubelet starts the container"
    );
    Some(Advice::error(path.clone(), "KeyNotFound", message, hint))
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{said, service};

    #[test]
    fn keys_are_looked_up_in_the_secrets_and_config_maps_of_the_same_files() {
        let with = |field: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      env: [{{name: A, valueFrom: {field}}}]\n"
            );
            let secret =
                "---\napiVersion: v1\nkind: Secret\nmetadata: {name: hf}\nstringData: {HF_TOKEN: a}\n";
            let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {b: c}\n";
            said(&(service("a", &pod) + secret + map))
        };
        let path = "spec.template.containers[0].env[0].valueFrom";
        let not = "so no kubelet starts the container";
        assert_eq!(
            with("{secretKeyRef: {name: hf, key: HF_TOKN}}"),
            [format!(
                "9:60 error {path}.secretKeyRef.key: is `HF_TOKN`, which Secret default/hf does not have, {not} (did you mean `HF_TOKEN`?)"
            )]
        );
        assert_eq!(
            with("{configMapKeyRef: {name: m, key: quite-another}}"),
            [format!(
                "9:62 error {path}.configMapKeyRef.key: is `quite-another`, which ConfigMap default/m does not have, {not} (its keys: b)"
            )]
        );
        for sound in [
            "{secretKeyRef: {name: hf, key: HF_TOKEN}}",
            "{secretKeyRef: {name: hf, key: x, optional: true}}",
            "{configMapKeyRef: {name: m, key: b}}",
            "{configMapKeyRef: {name: elsewhere, key: x}}",
        ] {
            assert_eq!(with(sound), [""; 0]);
        }
    }
}
