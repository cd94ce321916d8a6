//! Keys that a Secret or a ConfigMap of the same manifests does not have.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use longboat_api::{
    names::STORAGE_INITIALIZER,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_key::{Name, Namespace, nearest};
use longboat_plan::{Plan, Snapshot, has_credentials, secret_command};

use crate::{
    finding::Advice,
    pods::{NeededObject, needed_objects, templates},
};

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
    let picker = spec.scheduler().and_then(|scheduler| scheduler.template.as_deref());
    let all = spec.server_pods().chain(picker.map(|pod| ("spec.router.scheduler.template", pod)));
    let missing = all.flat_map(|(path, pod)| references(path, pod)).filter_map(|reference| {
        let KeyReference { path, kind, name, key } = &reference;
        let hint = reference.hint_if_missing(snapshot, namespace)?;
        let message = format!(
            "is `{key}`, which {kind} {namespace}/{name} does not have, so no kubelet starts the container"
        );
        Some(Advice::error(path.clone(), "KeyNotFound", message, hint))
    });
    missing.collect()
}

/// Finds keys that the planned pods need beyond those in the spec, such as those of credentials for the download, and a Secret without
/// any credentials.
pub(crate) fn of_plan(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    plan: &Plan,
) -> Vec<Advice> {
    let namespace = Namespace::of(&service.metadata);
    let annotation = &snapshot.platform.credentials.storage_secret_name_annotation;
    let annotated = service.metadata.annotations.as_ref().and_then(|all| all.get(annotation));
    let path_of = |kind: &str, name: &str| match annotated {
        Some(annotated) if (kind, name) == ("Secret", annotated) => {
            format!("metadata.annotations[{annotation}]")
        }
        _ => "spec".to_owned(),
    };
    let specs = || templates(&plan.children).filter_map(|template| template.spec.as_ref());
    let mut all: Vec<Advice> = Vec::new();
    for reference in specs().flat_map(|pod| references("", pod)) {
        let KeyReference { kind, name, key, .. } = &reference;
        let Some(hint) = reference.hint_if_missing(snapshot, namespace) else { continue };
        let message = format!(
            "needs the key `{key}` of {kind} {namespace}/{name}, which does not have it, so no kubelet starts the container"
        );
        let advice = Advice::error(path_of(kind, name), "KeyNotFound", message, hint);
        // Several pods download the model.
        if !all.contains(&advice) {
            all.push(advice);
        }
    }
    // Without a download, for example from a claim, nobody reads the Secret.
    let downloads = specs()
        .flat_map(|pod| pod.init_containers.iter().flatten())
        .any(|one| one.name == STORAGE_INITIALIZER);
    let given = annotated.and_then(|name| Some((name, snapshot.secrets.get(namespace, Name(name))?)));
    if let Some((name, secret)) = given.filter(|_| downloads) {
        let known = keys_of(secret.data.iter().flatten(), secret.string_data.iter().flatten());
        if !known.is_empty() && !has_credentials(&snapshot.platform, secret) {
            let message = format!(
                "names Secret {namespace}/{name}, which has no credentials for a download (its keys: {})",
                known.join(", ")
            );
            let command = secret_command(&snapshot.platform, namespace, name, &spec.model.uri.address());
            let hint = command.map_or_else(
                || "remove the annotation: the model needs no Secret".to_owned(),
                |command| format!("the download reads the keys of `{command}`"),
            );
            all.push(Advice::warning(path_of("Secret", name), "NoCredentials", message, hint));
        }
    }
    all
}

/// The keys of objects that a pod needs, with their paths below that of the pod.
fn references<'a>(path: &str, pod: &'a PodSpec) -> impl Iterator<Item = KeyReference<'a>> + use<'a> {
    let needed = needed_objects(path, pod).into_iter();
    needed.flat_map(|NeededObject { kind, name, keys }| {
        keys.into_iter().map(move |(path, key)| KeyReference { path, kind, name, key })
    })
}

fn keys_of<'a, A: 'a, B: 'a>(
    first: impl Iterator<Item = (&'a String, A)>,
    second: impl Iterator<Item = (&'a String, B)>,
) -> Vec<&'a str> {
    let all: BTreeSet<&str> =
        first.map(|(key, _)| key.as_str()).chain(second.map(|(key, _)| key.as_str())).collect();
    all.into_iter().collect()
}

// === impl KeyReference ===

impl KeyReference<'_> {
    /// Returns what to do if the manifests have the object, and not with this key.
    fn hint_if_missing(&self, snapshot: &Snapshot, namespace: Namespace<&str>) -> Option<String> {
        let (name, key) = (Name(self.name), self.key);
        let known = if self.kind == "Secret" {
            let found = snapshot.secrets.get(namespace, name)?;
            keys_of(found.data.iter().flatten(), found.string_data.iter().flatten())
        } else {
            let found = snapshot.config_maps.get(namespace, name)?;
            keys_of(found.data.iter().flatten(), found.binary_data.iter().flatten())
        };
        // Something else fills an object that is empty.
        if known.is_empty() || known.contains(&key) {
            return None;
        }
        Some(match nearest(known.iter().copied(), key) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("its keys: {}", known.join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn keys_are_looked_up_in_the_secrets_and_config_maps_of_the_same_files() {
        let with = |field: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      env: [{{name: A, valueFrom: {field}}}]\n"
            );
            let secret =
                "---\napiVersion: v1\nkind: Secret\nmetadata: {name: hf}\nstringData: {HF_TOKEN: a}\n";
            let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {b: c}\n";
            finding_lines(&(service("a", &pod) + secret + map))
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

    #[test]
    fn keys_of_projected_volumes_and_of_the_picker_are_looked_up_too() {
        let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {xx: v}\n";
        let not = "which Secret default/s does not have, so no kubelet starts the container (its keys: xx)";
        let volume = |key: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    volumes: [{{name: v, projected: {{sources: [{{secret: {{name: s, items: [{{key: {key}, path: p}}]}}}}]}}}}]\n"
            );
            finding_lines(&(service("a", &pod) + secret))
        };
        assert_eq!(
            volume("aa"),
            [format!(
                "7:75 error spec.template.volumes[0].projected.sources[0].secret.items[0].key: is `aa`, {not}"
            )]
        );
        assert_eq!(volume("xx"), [""; 0]);
        let picker = "  model: {uri: 'hf://a/b'}\n  router:\n    route: {}\n    gateway: {}\n    scheduler:\n      template: {containers: [{name: main, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: aa}}}]}]}\n";
        let found = finding_lines(&(service("a", picker) + secret));
        let path = "spec.router.scheduler.template.containers[0].env[0].valueFrom.secretKeyRef.key";
        assert_eq!(found, [format!("10:96 error {path}: is `aa`, {not}")]);
    }

    #[test]
    fn a_secret_in_the_files_must_have_the_credentials_of_the_download() {
        let with = |uri: &str, data: &str| {
            let annotated = "s, annotations: {serving.kserve.io/storageSecretName: keys}";
            let secret =
                format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {data}\n");
            finding_lines(&(service(annotated, &format!("  model: {{uri: '{uri}'}}\n")) + &secret))
        };
        let path = "metadata.annotations[serving.kserve.io/storageSecretName]";
        assert_eq!(
            with("s3://b/m", "{AWS_ACCESS_KEY: a, AWS_SECRET_ACCESS_KEY: b}"),
            [format!(
                "3:35 error {path}: needs the key `AWS_ACCESS_KEY_ID` of Secret default/keys, which does not have it, so no kubelet \
                 starts the container (did you mean `AWS_ACCESS_KEY`?)"
            )]
        );
        assert_eq!(
            with("hf://a/b", "{HF_TOKN: a}"),
            [format!(
                "3:35 warning {path}: names Secret default/keys, which has no credentials for a download (its keys: HF_TOKN) (the download \
                 reads the keys of `kubectl create secret generic -n default keys --from-literal=HF_TOKEN=\"$HF_TOKEN\"`)"
            )]
        );
        for (uri, data) in [
            ("hf://a/b", "{HF_TOKEN: a}"),
            ("s3://b/m", "{AWS_ACCESS_KEY_ID: a, AWS_SECRET_ACCESS_KEY: b}"),
            // Somebody else fills it.
            ("hf://a/b", "{}"),
            // Nothing is downloaded.
            ("pvc://claim/m", "{other: a}"),
        ] {
            assert_eq!(with(uri, data), [""; 0], "{uri} {data}");
        }
        let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nsecrets: [{name: keys}]\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {AWS_SECRET_ACCESS_KEY: a}\n";
        let found = finding_lines(&(service("s", "  model: {uri: 's3://b/m'}\n") + account));
        assert!(
            found.len() == 1 && found[0].starts_with("4:1 error spec: needs the key `AWS_ACCESS_KEY_ID`"),
            "{found:#?}"
        );
    }
}
