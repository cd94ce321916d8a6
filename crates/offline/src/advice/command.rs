//! Commands that no container starts with.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use super::{Advice, pods, variables::containers};

const SHELLS: [&str; 4] = ["ash", "bash", "dash", "sh"];
/// Programs that are not meant as a part of a name.
const PROGRAMS: [&str; 4] = ["python", "python3", "sglang", "vllm"];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, pod) in pods(spec) {
        all.extend(containers(&path, pod).filter_map(|(path, container)| advice(&path, container)));
    }
    all
}

fn advice(path: &str, container: &Container) -> Option<Advice> {
    let command = container.command.as_deref()?;
    let (program, rest) = command.split_first()?;
    let base = |program: &str| program.rsplit('/').next().unwrap_or_default().to_owned();
    if let Some((first, others)) = program.split_once(char::is_whitespace) {
        let first = base(first);
        return (PROGRAMS.contains(&&*first) || SHELLS.contains(&&*first)).then(|| {
            Advice::error(
                format!("{path}.command[0]"),
                "CommandInOneItem",
                format!("is \"{program}\", and no program has this name: the container does not start"),
                format!("write one item for each word: `- {first}`, then those of `{}`", others.trim()),
            )
        });
    }
    let lists = [("command", 1, rest), ("args", 0, container.args.as_deref().unwrap_or_default())];
    let mut words = lists.into_iter().flat_map(|(list, from, words)| {
        words.iter().enumerate().map(move |(at, word)| (format!("{path}.{list}[{}]", from + at), word))
    });
    let (path, script) = words.next().filter(|_| SHELLS.contains(&&*base(program)))?;
    let is_script = !script.starts_with('-') && script.contains(char::is_whitespace);
    is_script.then(|| {
        Advice::error(
            path,
            "ScriptNotRead",
            format!(
                "is no file that {program} could run: without -c, the first argument is the name of a script"
            ),
            "write the item `- -c` before it".to_owned(),
        )
    })
}
