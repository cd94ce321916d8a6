//! Advice, as `validate` and `render` give it.

use longboat_manifest::{parse, parse_all};

use crate::{
    Settings,
    finding::{Finding, Severity, Source},
    render,
    scene::Scene,
    validate::validate,
};

/// Returns a service of that name with these lines in its spec. The first one is line 5.
pub(super) fn service(name: &str, lines: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: {name}}}\nspec:\n{lines}"
    )
}

/// Returns the errors and warnings. Notes depend on what else the cluster has.
pub(super) fn findings(text: &str) -> Vec<Finding> {
    let mut findings = all_findings(text);
    findings.retain(|finding| finding.severity != Severity::Note);
    findings
}

pub(super) fn all_findings(text: &str) -> Vec<Finding> {
    validate(parse_all("f.yaml", text), &Settings::default()).findings
}

/// Returns the findings as `line:column severity path: message (hint)`.
pub(super) fn finding_lines(text: &str) -> Vec<String> {
    let show = |finding: &Finding| {
        let (line, column) = (finding.line.unwrap_or_default(), finding.column.unwrap_or_default());
        let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let Finding { path, message, .. } = finding;
        format!("{line}:{column} {} {path}: {message}{hint}", finding.severity.name())
    };
    findings(text).iter().map(show).collect()
}

/// Returns the notes of `render` that are warnings for this reason.
pub(super) fn noted(text: &str, reason: &str) -> Vec<String> {
    let scene = Scene::new(&parse("f.yaml", text).unwrap(), &Settings::default()).unwrap();
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    let warnings = rendered.notes.into_iter().filter(|note| note.severity == render::Severity::Warning);
    warnings.map(|note| note.message).filter(|message| message.starts_with(reason)).collect()
}

#[test]
fn a_command_that_names_no_model_is_told_so() {
    let told = |words: &str| {
        let lines = format!(
            "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      command: {words}\n"
        );
        finding_lines(&service("s", &lines))
    };
    let none = told("[vllm, serve, --max-model-len=10, --dtype, half]");
    assert!(
        none.len() == 1 && none[0].contains("names no model: vLLM serves a default of its own"),
        "{none:#?}"
    );
    let later = told("[vllm, serve, --enforce-eager, /mnt/models]");
    assert!(later.len() == 1 && later[0].contains("serve the model as /mnt/models only"), "{later:#?}");
}

#[test]
fn an_address_that_names_no_model_is_one_error() {
    for (uri, problem) in [
        ("hf://Qwen", "expected hf://OWNER/MODEL[:REVISION]: the owner or the model is missing"),
        (
            "file://./model",
            "expected file:///PATH: the path must be absolute, because the download has a folder of its own",
        ),
    ] {
        let text = service("s", &format!("  model: {{uri: '{uri}', name: m}}\n"));
        assert_eq!(
            finding_lines(&text),
            [format!("5:11 error spec.model.uri: \"{uri}\" cannot be fetched: {problem}")]
        );
    }
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  model:\n    uri: hf://Qwen\n";
    let found = findings(&(service("s", "  model: {uri: ''}\n  baseRefs: [{name: base}]\n") + config));
    let places: Vec<_> =
        found.iter().map(|finding| (finding.line.unwrap(), finding.severity.name())).collect();
    assert!(places.contains(&(13, "error")), "{found:#?}");
}

#[test]
fn names_that_are_no_single_word_of_a_shell_are_warned_about() {
    let lines = "  model:\n    uri: hf://a/b\n    name: 'x; touch y'\n    lora:\n      adapters:\n      - {name: 'a$(id)', uri: 'hf://a/c'}\n      - {name: ok/it, uri: 'hf://a/d'}\n";
    let found = findings(&service("s", lines));
    let places: Vec<_> =
        found.iter().map(|finding| (finding.line.unwrap(), finding.path.as_str(), finding.source)).collect();
    assert_eq!(
        places,
        [(7, "spec.model.name", Source::Webhook), (10, "spec.model.lora.adapters[0].name", Source::Webhook)]
    );
    assert!(found[0].message.starts_with("\"x; touch y\" is no single word for a shell"), "{found:#?}");
}

#[test]
fn an_annotated_secret_that_is_not_in_the_files_is_warned_about() {
    let annotated = |uri: &str| {
        service(
            "s, annotations: {serving.kserve.io/storageSecretName: keys}",
            &format!("  model: {{uri: '{uri}'}}\n"),
        )
    };
    assert_eq!(
        finding_lines(&annotated("s3://bucket/m")),
        [
            "3:35 warning metadata.annotations[serving.kserve.io/storageSecretName]: Secret default/keys is not in these \
             files (it must exist on the cluster before the model can be downloaded: `kubectl create secret generic -n default keys \
             --from-literal=AWS_ACCESS_KEY_ID=\"$AWS_ACCESS_KEY_ID\" --from-literal=AWS_SECRET_ACCESS_KEY=\"$AWS_SECRET_ACCESS_KEY\"`)"
        ]
    );
    assert_eq!(finding_lines(&annotated("pvc://claim")), Vec::<String>::new());
}

#[test]
fn a_name_of_the_model_that_a_config_replaces_is_warned_about() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  model: {uri: \
                  'hf://a/b', name: theirs}\n";
    let with = |model: &str| {
        finding_lines(&format!(
            "{}{config}",
            service("one", &format!("  model: {model}\n  baseRefs: [{{name: base}}]\n"))
        ))
    };
    let found = with("{uri: 'hf://a/b', name: ours}");
    let start =
        "12:28 warning spec.model.name: is theirs because of a config, although the service says ours";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
    assert_eq!(with("{uri: 'hf://a/b'}"), [""; 0]);
}

#[test]
fn arguments_that_contradict_the_preset_or_that_vllm_lacks_are_named() {
    let with = |field: &str| {
        service(
            "one",
            &format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  template:\n    containers:\n    - name: main\n      {field}\n"
            ),
        )
    };
    let main = "spec.template.containers[0]";
    for (field, expected) in [
        (
            "args: [--max-modle-len, '8']",
            format!(
                "9:14 warning {main}.args[0]: has --max-modle-len, which is no flag of vLLM 0.32.0: vLLM does not start with flags that it does not know (did you mean `--max-model-len`?)"
            ),
        ),
        (
            "env: [{name: VLLM_ADDITIONAL_ARGS, value: '--dtipe half'}]",
            format!(
                "9:42 warning {main}.env[0].value: has --dtipe, which is no flag of vLLM 0.32.0: vLLM does not start with flags that it does not know (did you mean `--dtype`?)"
            ),
        ),
        (
            "args: ['--served-model-name=other']",
            format!(
                "9:14 warning {main}.args[0]: makes vLLM serve the model as other only: requests for m, the name in spec.model.name, get 404 (remove --served-model-name, and set spec.model.name)"
            ),
        ),
        (
            "args: [--port, '9000']",
            format!(
                "9:14 error {main}.args[0]: makes vLLM listen on port 9000, but its probes and the Service use port 8000: no pod becomes ready (remove --port: the preset sets it)"
            ),
        ),
        (
            "args: [--host, 127.0.0.1]",
            format!(
                "9:14 warning {main}.args[0]: makes vLLM listen on 127.0.0.1, where nobody outside of the pod reaches it: neither probes nor the picker (remove --host: vLLM then listens on all addresses)"
            ),
        ),
        (
            "command: [vllm, serve, m]\n      args: ['--max-model-len 1000']",
            format!(
                "10:14 warning {main}.args[0]: gives vLLM \"--max-model-len 1000\" as one argument, which is no flag of it: vLLM does not start (write two items: `- --max-model-len` and `- \"1000\"`)"
            ),
        ),
    ] {
        assert_eq!(finding_lines(&with(field)), [expected]);
    }
    for field in [
        // The start script of the preset parts the words of an item.
        "args: ['--max-model-len 1000', --host, 0.0.0.0]",
        "args: [--port, '8000', --served-model-name, other, m, \"--hf-overrides='{\\\"--a\\\": 1}'\"]",
        "command: [my-server]\n      args: [--max-modle-len, '8', --port, '9']",
    ] {
        assert_eq!(finding_lines(&with(field)), [""; 0]);
    }
}
