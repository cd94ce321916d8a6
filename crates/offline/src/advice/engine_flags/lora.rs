//! LoRA adapters that a command of one's own does not load.

use longboat_api::{
    annotations::RUNTIME_ADAPTERS,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};

use super::{uses::Uses, words::Words};
use crate::finding::Advice;

const FIELD: &str = "spec.model.lora.adapters";

/// Finds adapters whose arguments, which the controller adds to the container, do not reach vLLM as they do through the start
/// scripts of presets.
pub(super) fn check(
    uses: &Uses<'_>,
    words: &Words,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    spec.adapters().first()?;
    let annotations = service.metadata.annotations.as_ref();
    let are_loaded_later = annotations.is_some_and(|all| all.contains_key(RUNTIME_ADAPTERS));
    if words.is_preset || are_loaded_later || uses.is_open || uses.last("--lora-modules").is_some() {
        return None;
    }
    // Nothing is known of a program of the image that starts vLLM by itself.
    Some(if words.takes_arguments? {
        Advice::error(
            FIELD,
            "AdaptersQuoted",
            "is passed as JSON in single quotes, which the start scripts of presets remove, and the command of container main \
             does not: vLLM does not start",
            "remove the command, or pass --lora-modules in it yourself: the controller then adds none",
        )
    } else {
        Advice::warning(
            FIELD,
            "AdaptersNotLoaded",
            "has no effect: the controller adds --lora-modules to the args of container main, and its command does not pass them \
             to vLLM",
            "write the flags for LoRA into the command",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::about;

    #[test]
    fn adapters_that_a_command_of_ones_own_does_not_load_are_named() {
        let with = |fields: &str| {
            about(&format!(
                "  model: {{uri: 'hf://a/b', name: m, lora: {{adapters: [{{name: a, uri: 'hf://x/y'}}]}}}}\n  template:\n    containers:\n    \
             - name: main\n      {fields}\n"
            ))
        };
        for (fields, expected) in [
            (
                "command: [vllm, serve, m]",
                "error spec.model.lora.adapters: is passed as JSON in single quotes",
            ),
            (
                "command: [bash, -c, 'vllm serve m \"$@\"', --]",
                "error spec.model.lora.adapters: is passed as JSON in single",
            ),
            (
                "command: [bash, -c, vllm serve m]",
                "warning spec.model.lora.adapters: has no effect: the controller adds",
            ),
        ] {
            let found = with(fields);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{fields}: {found:#?}");
        }
        for fields in ["args: [--max-loras, '2']", "command: [bash, -c, 'eval vllm serve m $MORE']"] {
            assert_eq!(with(fields), [""; 0], "{fields}");
        }
    }
}
