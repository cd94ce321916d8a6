//! Commands that no container starts with.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use super::Advice;
use crate::pods::{base, containers, is_shell, placed_words};

/// Programs that are not meant as a part of a name.
const PROGRAMS: [&str; 4] = ["python", "python3", "sglang", "vllm"];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    containers(spec).filter_map(|(path, container)| advice(&path, container)).collect()
}

fn advice(path: &str, container: &Container) -> Option<Advice> {
    let program = container.command.as_ref()?.first()?;
    if let Some((first, others)) = program.split_once(char::is_whitespace) {
        let first = base(first);
        return (PROGRAMS.contains(&first) || is_shell(first)).then(|| {
            Advice::error(
                format!("{path}.command[0]"),
                "CommandInOneItem",
                format!("is \"{program}\", and no program has this name: the container does not start"),
                format!("write one item for each word: `- {first}`, then those of `{}`", others.trim()),
            )
        });
    }
    let (path, script) = placed_words(path, container).nth(1).filter(|_| is_shell(program))?;
    let is_script = !script.starts_with('-') && script.contains(char::is_whitespace);
    is_script.then(|| {
        Advice::error(
            path,
            "ScriptNotRead",
            format!(
                "is no file that {program} could run: without -c, the first argument is the name of a script"
            ),
            "write the item `- -c` before it",
        )
    })
}
