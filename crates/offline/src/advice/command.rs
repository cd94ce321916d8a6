//! Commands that no container starts with.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_key::nearest;

use crate::{
    finding::Advice,
    pods::{base, containers, is_shell, placed_words},
};

/// Programs that are not meant as a part of a name.
const PROGRAMS: [&str; 4] = ["python", "python3", "sglang", "vllm"];

/// The subcommands of vLLM.
const SUBCOMMANDS: [&str; 10] = [
    "bench",
    "chat",
    "collect-env",
    "complete",
    "download-kernels",
    "launch",
    "preload",
    "run-batch",
    "serve",
    "snapshot",
];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    containers(spec).filter_map(|(path, container)| advice(&path, container)).collect()
}

fn advice(path: &str, container: &Container) -> Option<Advice> {
    // No shell splits a command: its first item is the name of a file.
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
    if let Some((path, word)) = placed_words(path, container).nth(1)
        && base(program) == "vllm"
        && !word.starts_with('-')
        && !SUBCOMMANDS.contains(&word)
    {
        let hint = nearest(SUBCOMMANDS, word).unwrap_or("serve");
        return Some(Advice::error(
            path,
            "UnknownSubcommand",
            format!("is `{word}`, which is no subcommand of vllm: it ends at once"),
            format!("write `{hint}`"),
        ));
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

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_subcommand_that_vllm_does_not_have_is_named() {
        let with = |command: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  template: {{containers: [{{name: main, command: {command}}}]}}\n"
            );
            let found = finding_lines(&service("a", &pod)).into_iter();
            found.filter(|found| found.contains("subcommand")).collect::<Vec<_>>()
        };
        for (command, hint) in
            [("[vllm, run, /mnt/models]", "write `serve`"), ("[/usr/bin/vllm, server]", "write `serve`")]
        {
            let found = with(command);
            assert!(
                found.len() == 1 && found[0].contains(" error ") && found[0].contains(hint),
                "{command}: {found:#?}"
            );
        }
        for command in ["[vllm, serve, /mnt/models]", "[vllm, --version]", "[run, x]", "[sh, -c, 'vllm run']"]
        {
            assert_eq!(with(command), [""; 0], "{command}");
        }
    }
}
