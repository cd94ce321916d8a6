//! The addresses of models and adapters, and what is mounted in their place.

use std::{path::Path, sync::LazyLock};

use longboat_admission::unfetchable;
use longboat_api::{
    labels::LOCAL_MODEL,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::{Adapter, AdapterSource};
use longboat_download::address::{Address, Scheme};
use longboat_plan::{Snapshot, model_volume};
use regex::Regex;

use super::MODEL_PATH;
use crate::{
    finding::{Advice, Severity},
    pods::main_containers,
    stored::hint,
};

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
        all.extend(mounted_twice(service, spec));
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
            "spec.model.name",
            "ModelRenamed",
            format!(
                "is {name} because of a config, although the service says {own}: clients must ask for {name}"
            ),
            "remove the name from the config",
        )
    })
}

/// What people write to have it replaced: templates, variables of shells and kubelets, and placeholders.
static UNREPLACED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{.*\}\}|\$\{\w+[^}]*\}|\$\(\w+\)|<[\w -]+>|/\$[A-Z_][A-Z0-9_]*(?:/|$)")
        .expect("the expression is constant")
});

/// Returns a part of an address that somebody meant to be replaced, and what to do.
fn unreplaced(address: &Address) -> Option<(String, String)> {
    let codes =
        [("%7B", "{"), ("%7D", "}"), ("%28", "("), ("%29", ")"), ("%3C", "<"), ("%3E", ">"), ("%20", " ")];
    let written = codes.iter().fold(address.to_string(), |text, (code, c)| text.replace(code, c));
    let part = UNREPLACED.find(&written)?.as_str().trim_matches('/').to_owned();
    let hint = if part.starts_with("{{") {
        "write the address itself into the service: templates of configs are not rendered in addresses of models, whose braces are \
         encoded before"
            .to_owned()
    } else {
        hint::placeholder(&part).unwrap_or_else(|| "write the value".to_owned())
    };
    Some((part, hint))
}

/// Finds addresses from which no download can succeed.
fn addresses(snapshot: &Snapshot, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut found = unfetchable(spec);
    let platform = &snapshot.platform;
    let all = spec.models().map(|(path, model)| (format!("{path}.uri"), &model.uri));
    let all: Vec<_> = all.filter(|_| spec.storage_initializer_enabled()).collect();
    if platform.storage.ours {
        found.extend(all.iter().filter_map(|(path, uri)| {
            let address = uri.address();
            let problem = address.unsupported()?;
            Some((path.clone(), format!("\"{address}\" cannot be fetched: {problem}")))
        }));
    }
    let literal = all.iter().filter(|(path, _)| !found.iter().any(|(known, _)| known == path));
    let literal = literal.filter_map(|(path, uri)| {
        let (part, hint) = unreplaced(&uri.address())?;
        let message = format!("has `{part}`, which nothing replaces: there is no model at this address");
        Some(Advice::error(path.clone(), "ModelAddress", message, hint))
    });
    let literal: Vec<Advice> = literal.collect();
    // The message has the address, with braces encoded.
    let hint = |message: &str| {
        let written = message.split('"').nth(1)?;
        let address = Address::parse(written);
        let is_image = matches!(address.scheme(), Scheme::Oci | Scheme::OciNative);
        hint::placeholder(&written.replace("%7B", "{").replace("%7D", "}"))
            .or_else(|| Some(format!("did you mean `{}`?", address.meant()?)))
            .or_else(|| is_image.then(|| IMAGE_FORM.to_owned()))
    };
    let error = |(path, message): (String, String)| {
        let hint = hint(&message);
        Advice { path, severity: Severity::Error, reason: "ModelAddress", message, hint }
    };
    found.into_iter().map(error).chain(literal).collect()
}

/// Finds volumes that a container of a model server mounts where the controller mounts the model.
fn mounted_twice(service: &LLMInferenceService, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    // An image with the model is no volume, unless the cluster can mount images.
    let scheme = spec.model.uri.address().scheme();
    if matches!(scheme, Scheme::Absent | Scheme::Oci) {
        return Vec::new();
    }
    // A model of the local cache is in a claim.
    let is_cached = service.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LOCAL_MODEL));
    let own_volume = model_volume(if is_cached { Scheme::Claim } else { scheme });
    let mut all = Vec::new();
    for (path, main) in main_containers(spec) {
        for (at, mount) in main.volume_mounts.iter().flatten().enumerate() {
            let is_own = own_volume == Some(mount.name.as_str());
            if mount.mount_path.trim_end_matches('/') == MODEL_PATH && !is_own {
                all.push(Advice::error(
                    format!("{path}.volumeMounts[{at}].mountPath"),
                    "ModelMountedTwice",
                    format!(
                        "is {MODEL_PATH}, where the controller mounts the model from spec.model.uri: two volumes cannot have one \
                         path"
                    ),
                    format!(
                        "remove the volume mount {}, or bring the model yourself with spec.storageInitializer.enabled: false",
                        mount.name
                    ),
                ));
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

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_part_of_an_address_that_nothing_replaces_is_an_error() {
        let of = |part: &str| {
            format!(
                "6:error spec.model.uri: has `{part}`, which nothing replaces: there is no model at this address"
            )
        };
        let at = |uri: &str| {
            let found = finding_lines(&service("a", &format!("  model:\n    uri: '{uri}'\n")));
            let show = |one: String| one.replace("6:5 ", "6:");
            found.into_iter().map(show).collect::<Vec<_>>()
        };
        let variable = |part: &str| {
            format!("{} (`{part}` is not replaced here: run `envsubst` first, or write the value)", of(part))
        };
        for (uri, part) in [
            ("s3://bucket/${MODEL}", "${MODEL}"),
            ("gs://bucket/${MODEL:-llama}/v1", "${MODEL:-llama}"),
            ("pvc://claim/$MODEL", "$MODEL"),
            ("pvc://claim/models/$MODEL/v1", "$MODEL"),
        ] {
            assert_eq!(at(uri), [variable(part)], "{uri}");
        }
        assert_eq!(at("gs://bucket/$(MODEL)/x"), [format!("{} (write the value)", of("$(MODEL)"))]);
        assert_eq!(
            at("s3://bucket/<model-name>"),
            [format!("{} (replace the placeholder `<model-name>` first)", of("<model-name>"))]
        );
        for uri in ["s3://bucket/a$b/{c}", "s3://bucket/$folder$", "pvc://claim/a-b_c", "https://host/a?x=$1"]
        {
            assert_eq!(at(uri), [""; 0], "{uri}");
        }
    }

    #[test]
    fn a_template_in_an_address_is_an_error_where_it_is_written() {
        let text = "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: c}\nspec:\n  model: {uri: 's3://bucket/{{ .ObjectMeta.Name }}'}\n---\n";
        let found = finding_lines(&format!("{text}{}", service("a", "  baseRefs: [{name: c}]\n")));
        let expected = "has `{{ .ObjectMeta.Name }}`, which nothing replaces: there is no model at this address (write the address itself \
                        into the service: templates of configs are not rendered in addresses of models, whose braces are encoded before)";
        assert_eq!(found, [format!("5:11 error spec.model.uri: {expected}")]);
    }
}
