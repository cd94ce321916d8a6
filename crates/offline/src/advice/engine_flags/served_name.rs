//! The name under which vLLM serves the model.

use longboat_api::{engine::VLLM, v1alpha2::LLMInferenceServiceSpec};

use super::{uses::Uses, words::Word};
use crate::{advice::MODEL_PATH, finding::Advice};

/// Names of the model that replace the one which clients and routes use.
pub(super) fn replaced(uses: &Uses<'_>, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let name = spec.model.name.as_deref().filter(|name| !name.is_empty())?;
    let name_flag = uses.last(VLLM.served_name)?;
    let names = name_flag.texts();
    // What a variable or a template puts there is not known.
    let is_written = !names.iter().any(|name| name.contains(['$', '{']));
    (is_written && !names.contains(&name)).then(|| {
        Advice::warning(
            name_flag.word.path.clone(),
            "ServedNameReplaced",
            format!(
                "makes vLLM serve the model as {} only: requests for {name}, the name in spec.model.name, get 404",
                names.join(" ")
            ),
            format!("remove {}, and set spec.model.name", VLLM.served_name),
        )
    })
}

/// A command of one's own that leaves the name to vLLM, which takes the path of the model.
pub(super) fn missing(uses: &Uses<'_>, words: &[Word], spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let name = spec.model.name.as_deref().filter(|name| !name.is_empty())?;
    let first = words.first()?;
    let sets = |flag: &str| uses.last(flag).is_some();
    // A file of flags may name the model, and a headless vLLM has no server.
    if uses.is_open || ["--config", "--headless"].into_iter().any(sets) {
        return None;
    }
    let by_flag = uses.last("--model").and_then(|used| used.texts().into_iter().next());
    let Some(model) = by_flag.or_else(|| positional(words)) else {
        return Some(Advice::warning(
            first.path.clone(),
            "ModelNotNamed",
            format!("names no model: vLLM serves a default of its own in place of the one at {MODEL_PATH}"),
            format!("write {MODEL_PATH} after `serve`, or `--model {MODEL_PATH}`"),
        ));
    };
    (model != name && !sets(VLLM.served_name)).then(|| {
        Advice::warning(
            first.path.clone(),
            "ServedNameMissing",
            format!(
                "makes vLLM serve the model as {model} only: requests for {name}, the name in spec.model.name, get 404"
            ),
            format!(
                "add `{0} {name}` (in a config: `{0}={{{{ .Spec.Model.Name }}}}`)",
                VLLM.served_name
            ),
        )
    })
}

/// The model among the words: the first one that is no flag, and that no flag before it may have as its value.
fn positional(words: &[Word]) -> Option<&str> {
    let takes_next = |word: &Word| word.text.starts_with('-') && !word.text.contains('=');
    let mut before = None;
    words.iter().find_map(|word| {
        let is_value = before.replace(word).is_some_and(takes_next) && word.text != MODEL_PATH;
        (!word.text.starts_with('-') && !is_value).then_some(word.text.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PRESET, finding_lines};

    #[test]
    fn a_command_without_a_model_is_warned_about_whatever_its_name() {
        let found = finding_lines("command: [vllm, serve]\n      args: [--served-model-name=m, --port=8000]");
        assert!(found.len() == 1 && found[0].contains("names no model"), "{found:?}");
    }

    #[test]
    fn a_command_that_leaves_the_name_to_vllm_is_warned_about() {
        let message = "makes vLLM serve the model as /mnt/models only: requests for m, the name in spec.model.name, get 404 (add \
                   `--served-model-name m` (in a config: `--served-model-name={{ .Spec.Model.Name }}`))";
        for (fields, at) in [
            ("command: [vllm, serve, /mnt/models]", "command[2]"),
            (
                "command: [python3, -m, vllm.entrypoints.openai.api_server]\n      args: [--model, /mnt/models]",
                "args[0]",
            ),
            ("command: [/bin/bash, -c]\n      args: ['exec vllm serve /mnt/models --port 8000']", "args[0]"),
        ] {
            assert_eq!(finding_lines(fields), [format!("warning {PRESET}.{at}: {message}")], "{fields}");
        }
        for fields in [
            "command: [vllm, serve, /mnt/models]\n      args: [--served-model-name=m]",
            "command: [vllm, serve, m]",
            "command: [/bin/bash, -c, 'vllm serve /mnt/models $ARGS']",
            "command: [/bin/bash, -c, 'vllm serve /mnt/models --served-model-name \"$NAME\"']",
        ] {
            assert_eq!(finding_lines(fields), [""; 0], "{fields}");
        }
    }
}
