//! Variables and arguments of containers that do not read them.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::{
    labels::LOCAL_MODEL,
    names::STORAGE_INITIALIZER,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_download::address::Scheme;
use longboat_plan::Snapshot;

use super::MODEL_PATH;
use crate::{
    finding::Advice,
    pods::{
        MAIN, base, containers_of, is_shell, is_simulator, main_containers, split_words, variable, words,
    },
};

/// The kinds of stores from which models are downloaded with credentials.
const STORES: [Store; 2] = [
    Store { scheme: Scheme::HuggingFace, uri: "hf://", variables: &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] },
    Store { scheme: Scheme::S3, uri: "s3://", variables: &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] },
];
pub(super) const ADDITIONAL_ARGS: &str = "VLLM_ADDITIONAL_ARGS";

/// A kind of store.
struct Store {
    scheme: Scheme,
    uri: &'static str,
    /// The variables that have its credentials. The first is the key of a Secret, too.
    variables: &'static [&'static str],
}

pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Vec<Advice> {
    let credentials = &snapshot.platform.credentials;
    let has_secret = service
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|all| all.contains_key(&credentials.storage_secret_name_annotation));
    let mut all = Vec::new();
    for (path, pod) in spec.server_pods() {
        if !has_secret {
            let annotation = &credentials.storage_secret_name_annotation;
            let stores = STORES.iter().filter(|store| downloads_from(store.scheme, service, spec));
            all.extend(stores.filter_map(|store| store.credential_on_main(path, pod, annotation)));
        }
        all.extend(containers_of(path, pod).filter_map(|(path, container)| unread(&path, container)));
    }
    for (path, main) in main_containers(spec) {
        all.extend(misspelt(&path, main));
        all.extend(hub_model(&path, main).filter(|_| spec.storage_initializer_enabled()));
    }
    all
}

fn downloads_from(scheme: Scheme, service: &LLMInferenceService, spec: &LLMInferenceServiceSpec) -> bool {
    let is_cached = service.metadata.labels.as_ref().is_some_and(|all| all.contains_key(LOCAL_MODEL));
    let model = (!is_cached).then_some(&spec.model.uri);
    let adapters = spec.adapters().iter().map(|adapter| &adapter.uri);
    spec.storage_initializer_enabled()
        && model.into_iter().chain(adapters).any(|uri| uri.address().scheme() == scheme)
}

// === impl Store ===

impl Store {
    /// A credential that only the model server gets, while the initializer downloads the model.
    fn credential_on_main(&self, path: &str, pod: &PodSpec, annotation: &str) -> Option<Advice> {
        let Self { uri, variables, .. } = *self;
        let main = pod.containers.iter().find(|container| container.name == MAIN)?;
        let given = *variables.iter().find(|name| variable(main, name).is_some())?;
        let initializer =
            pod.init_containers.iter().flatten().find(|container| container.name == STORAGE_INITIALIZER);
        // The variables of a ConfigMap or Secret are not known, and neither are the Secrets of an account that the pod names.
        let may_have_it = initializer.is_some_and(|container| {
            container.env_from.is_some() || variables.iter().any(|name| variable(container, name).is_some())
        });
        let names_account = pod.service_account_name.as_ref().is_some_and(|name| !name.is_empty());
        (!may_have_it && !names_account).then(|| {
            Advice::warning(
                format!("{path}.containers[name={MAIN}].env[name={given}]"),
                "TokenNotForDownload",
                format!(
                    "does not reach the download: the init container {STORAGE_INITIALIZER} downloads models from {uri}, before \
                     the container {MAIN} starts"
                ),
                format!(
                    "set {given} in `{path}.initContainers[name={STORAGE_INITIALIZER}].env` too, or name a Secret with the key \
                     {} in the annotation {annotation}",
                    variables[0]
                ),
            )
        })
    }
}

/// Additional arguments for a server whose command does not read them.
fn unread(path: &str, container: &Container) -> Option<Advice> {
    let reads = words(container).any(|word| word.contains(ADDITIONAL_ARGS));
    (variable(container, ADDITIONAL_ARGS).is_some() && !reads && is_known(container)).then(|| {
        Advice::warning(
            format!("{path}.env[name={ADDITIONAL_ARGS}]"),
            "VariableNotRead",
            format!(
                "has no effect: the start scripts of presets read it, and the command of container {} does not",
                container.name
            ),
            format!("write the arguments into `{path}.args`"),
        )
    })
}

/// Variables that are probably meant for additional arguments, beside a script that reads these.
fn misspelt(path: &str, main: &Container) -> Vec<Advice> {
    let is_read = |name: &str| words(main).any(|word| word.contains(name));
    let means_arguments = |name: &str| {
        name.starts_with("VLLM_") && name.ends_with("_ARGS")
            || longboat_key::nearest([ADDITIONAL_ARGS], name).is_some()
    };
    let names = main.env.iter().flatten().map(|variable| variable.name.as_str());
    let misspelt = names.filter(|name| is_read(ADDITIONAL_ARGS) && means_arguments(name) && !is_read(name));
    let advice = misspelt.map(|name| {
        Advice::warning(
            format!("{path}.env[name={name}]"),
            "VariableNotRead",
            "has no effect: nothing reads it",
            format!("did you mean {ADDITIONAL_ARGS}?"),
        )
    });
    advice.collect()
}

/// Whether it is known what the container reads: it runs a script that is in the manifest, or a vLLM server, or one of our
/// own programs. A program in its image may read any variable.
pub(super) fn is_known(container: &Container) -> bool {
    let Some(first) = container.command.iter().flatten().next() else {
        let image = container.image.as_deref().unwrap_or_default();
        return container.name != MAIN && base(image).starts_with("vllm-openai")
            || container.name == STORAGE_INITIALIZER;
    };
    match base(first) {
        shell if is_shell(shell) => words(container).any(|word| word == "-c"),
        "vllm" | "pd-sidecar" => true,
        program if program.starts_with("python") => words(container).any(|word| word.starts_with("vllm.")),
        _ => false,
    }
}

/// A model of the hub that the server would download itself, beside the one that is mounted.
fn hub_model(path: &str, main: &Container) -> Option<Advice> {
    if is_simulator(main) {
        return None;
    }
    let mut all = split_words(path, main);
    // After the script of a preset, `serve` is no command.
    let is_served = words(main).any(|word| word.contains(&format!("serve {MODEL_PATH}")));
    let mut previous = "";
    let (at, model, written) = all.find_map(|(at, word)| {
        let (value, written) = match word.strip_prefix("--model=") {
            // A model beside that one is an error, which the check of the flags has.
            _ if is_served => ("", ""),
            Some(value) => (value, "--model "),
            None if previous == "--model" => (word, "--model "),
            None if previous == "serve" => (word, ""),
            None => ("", ""),
        };
        previous = word;
        let value = value.trim_matches(['"', '\'']);
        is_hub_name(value).then_some((at, value, written))
    })?;
    Some(Advice::warning(
        at,
        "ModelNamedTwice",
        format!(
            "names the model {model} of the Hugging Face hub: the server downloads it again, or ignores it, because \
             spec.model.uri is at {MODEL_PATH} already"
        ),
        if written.is_empty() {
            format!("write `{MODEL_PATH}` in its place")
        } else {
            format!("remove `{written}{model}`, or write `--model={MODEL_PATH}` if the command needs it")
        },
    ))
}

/// Whether a text has the form `owner/name`.
fn is_hub_name(text: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    text.split_once('/').is_some_and(|(owner, name)| plain(owner) && plain(name))
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_token_that_does_not_reach_the_download_is_warned_about() {
        let token = "{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: HF_TOKEN}}}";
        let lines = format!(
            "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      env: [{token}]\n"
        );
        assert_eq!(
            finding_lines(&service("gated", &lines)),
            [
                "9:13 warning spec.template.containers[0].env[0]: does not reach the download: the init container \
             storage-initializer downloads models from hf://, before the container main starts (set HF_TOKEN in \
             `spec.template.initContainers[name=storage-initializer].env` too, or name a Secret with the key HF_TOKEN in \
             the annotation serving.kserve.io/storageSecretName)"
            ]
        );
        let both = format!("{lines}    initContainers: [{{name: storage-initializer, env: [{token}]}}]\n");
        let annotated = service("gated, annotations: {serving.kserve.io/storageSecretName: hf}", &lines)
            + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: hf}\nstringData: {HF_TOKEN: a}\n";
        let account = lines.replace("  template:\n", "  template:\n    serviceAccountName: own\n");
        let elsewhere = lines.replace("hf://a/b", "pvc://claim/m");
        for text in
            [service("gated", &both), annotated, service("gated", &account), service("gated", &elsewhere)]
        {
            assert_eq!(finding_lines(&text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn the_keys_of_a_bucket_on_the_model_server_do_not_reach_the_download_either() {
        let lines = |uri: &str| {
            format!(
                "  model: {{uri: '{uri}'}}\n  template:\n    containers:\n    - name: main\n      env: [{{name: AWS_SECRET_ACCESS_KEY, value: a}}]\n"
            )
        };
        let [found] = &finding_lines(&service("s", &lines("s3://bucket/m")))[..] else {
            panic!("one warning")
        };
        assert!(
            found.contains("downloads models from s3://") && found.contains("set AWS_SECRET_ACCESS_KEY in"),
            "{found}"
        );
        assert_eq!(finding_lines(&service("s", &lines("hf://a/b"))), Vec::<String>::new());
    }

    #[test]
    fn additional_arguments_that_no_command_reads_are_warned_about() {
        let lines = |command: &str| {
            format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      {command}\n      env: [{{name: VLLM_ADDITIONAL_ARGS, value: --max-model-len=10}}]\n"
            )
        };
        assert_eq!(
            finding_lines(&service(
                "s",
                &lines("command: [vllm, serve, /mnt/models, --served-model-name, s]")
            )),
            [
                "10:13 warning spec.template.containers[0].env[0]: has no effect: the start scripts of presets read it, and the \
             command of container main does not (write the arguments into `spec.template.containers[name=main].args`)"
            ]
        );
        for command in [
            "image: own/image:1",
            "command: [/bin/sh, -c, 'vllm serve /mnt/models $VLLM_ADDITIONAL_ARGS']",
            "command: [/app/start]",
        ] {
            assert_eq!(finding_lines(&service("s", &lines(command))), Vec::<String>::new(), "{command}");
        }
    }

    #[test]
    fn a_model_of_the_hub_beside_the_downloaded_one_is_warned_about() {
        let lines = |args: &str| {
            format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      command: [python3, -m, \
                 vllm.entrypoints.openai.api_server, --served-model-name, s]\n      args: {args}\n"
            )
        };
        let expected = |at: &str| {
            format!(
                "10:{at}: names the model a/b of the Hugging Face hub: the server downloads it again, or ignores it, because \
             spec.model.uri is at /mnt/models already (remove `--model a/b`, or write `--model=/mnt/models` if the command \
             needs it)"
            )
        };
        for (args, at) in [
            ("[--model=a/b]", "14 warning spec.template.containers[0].args[0]"),
            ("[--model, a/b]", "23 warning spec.template.containers[0].args[1]"),
        ] {
            assert_eq!(finding_lines(&service("s", &lines(args))), [expected(at)], "{args}");
        }
        let serve = |model: &str| {
            lines(&format!("['vllm serve {model} --served-model-name s']")).replace(
                "[python3, -m, vllm.entrypoints.openai.api_server, --served-model-name, s]",
                "[sh, -c]",
            )
        };
        let found = finding_lines(&service("s", &serve("a/b")));
        assert!(found.len() == 1 && found[0].contains("names the model a/b of"), "{found:#?}");
        assert!(found[0].ends_with("(write `/mnt/models` in its place)"), "{found:#?}");
        assert_eq!(finding_lines(&service("s", &serve("/mnt/models"))), Vec::<String>::new());
        for args in
            ["[--model, /mnt/models]", "[--model=/mnt/models]", "[--model=/mnt/models, --tokenizer, a/b]"]
        {
            assert_eq!(finding_lines(&service("s", &lines(args))), Vec::<String>::new(), "{args}");
        }
    }
}
