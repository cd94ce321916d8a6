//! The addresses of models and adapters, and what is mounted in their place.

use std::path::Path;

use longboat_admission::unfetchable;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_compose::{Adapter, AdapterSource};
use longboat_download::address::{Address, Scheme};
use longboat_plan::Snapshot;

use super::{Advice, MODEL_PATH, main_containers};
use crate::validate::hint;

/// The form of an address of an image.
const IMAGE_FORM: &str =
    "write it as oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST";

pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Vec<Advice> {
    let mut all = addresses(snapshot, spec);
    all.extend(renamed(service, spec));
    if spec.storage_initializer_enabled() {
        all.extend(mounted_twice(spec));
        all.extend(hidden_adapters(spec));
    }
    all
}

/// Finds a name of the model that a config replaces. For all other fields, the service wins.
fn renamed(service: &LLMInferenceService, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let (own, name) = (service.spec.model.name.as_deref()?, spec.model.name.as_deref()?);
    // A service without a name of the model has its own there.
    let is_default = service.metadata.name.as_deref() == Some(own);
    (own != name && !own.is_empty() && !is_default).then(|| {
        Advice::warning(
            "spec.model.name".to_owned(),
            "ModelRenamed",
            format!(
                "is {name} because of a config, although the service says {own}: clients must ask for {name}"
            ),
            "remove the name from the config".to_owned(),
        )
    })
}

/// Finds addresses from which no download can succeed.
fn addresses(snapshot: &Snapshot, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut found = unfetchable(spec);
    let platform = &snapshot.platform;
    if spec.storage_initializer_enabled() && platform.storage.ours {
        let adapters = spec.model.lora.iter().flat_map(|lora| &lora.adapters).enumerate();
        let adapters =
            adapters.map(|(at, adapter)| (format!("spec.model.lora.adapters[{at}].uri"), &adapter.uri));
        let all = std::iter::once(("spec.model.uri".to_owned(), &spec.model.uri)).chain(adapters);
        found.extend(all.filter_map(|(path, uri)| {
            let address = uri.address();
            let problem = address.unsupported()?;
            Some((path, format!("\"{address}\" cannot be fetched: {problem}")))
        }));
    }
    // The message has the address, with braces encoded.
    let hint = |message: &str| {
        let written = message.split('"').nth(1)?;
        let address = Address::parse(written);
        let is_image = matches!(address.scheme(), Scheme::Oci | Scheme::OciNative);
        hint::placeholder(&written.replace("%7B", "{").replace("%7D", "}"))
            .or_else(|| Some(format!("did you mean `{}`?", address.meant()?)))
            .or_else(|| is_image.then(|| IMAGE_FORM.to_owned()))
    };
    let fatal = |(path, message): (String, String)| {
        let hint = hint(&message);
        Advice { path, fatal: true, reason: "ModelAddress", message, hint }
    };
    found.into_iter().map(fatal).collect()
}

/// Finds volumes that a container of a model server mounts where the controller mounts the model.
fn mounted_twice(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    // An image with the model is no volume, unless the cluster can mount images.
    let scheme = spec.model.uri.address().scheme();
    if matches!(scheme, Scheme::Absent | Scheme::Oci) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (path, main) in main_containers(spec) {
        for (at, mount) in main.volume_mounts.iter().flatten().enumerate() {
            if mount.mount_path.trim_end_matches('/') == MODEL_PATH {
                all.push(Advice {
                    path: format!("{path}.volumeMounts[{at}].mountPath"),
                    fatal: true,
                    reason: "ModelMountedTwice",
                    message: format!(
                        "is {MODEL_PATH}, where the controller mounts the model from spec.model.uri: two volumes cannot have one \
                         path"
                    ),
                    hint: Some(format!(
                        "remove the volume mount {}, or bring the model yourself with spec.storageInitializer.enabled: false",
                        mount.name
                    )),
                });
            }
        }
    }
    all
}

/// Finds volumes that the model server sees in place of adapters that the controller downloads.
fn hidden_adapters(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    // Composing has reported adapters that cannot be read.
    let mut adapters = longboat_compose::adapters(spec).unwrap_or_default();
    adapters.retain(|adapter| adapter.source == AdapterSource::Download);
    let mut all = Vec::new();
    for (path, main) in main_containers(spec) {
        for (at, mount) in main.volume_mounts.iter().flatten().enumerate() {
            let below = |adapter: &&Adapter| Path::new(&adapter.mount_path).starts_with(&mount.mount_path);
            let hidden: Vec<&str> =
                adapters.iter().filter(below).map(|adapter| adapter.name.as_str()).collect();
            if !hidden.is_empty() {
                all.push(Advice::warning(
                    format!("{path}.volumeMounts[{at}].mountPath"),
                    "AdapterHidden",
                    format!("hides the LoRA adapters that the controller downloads there: {}", hidden.join(", ")),
                    format!(
                        "mount the volume {} elsewhere, or name a pvc:// address for each adapter that it has",
                        mount.name
                    ),
                ));
            }
        }
    }
    all
}
