//! Verbs of other programs that people try here, and what does the same.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs with the same advice. Commands stand in backticks; a test parses those of `longboat`.
const VERBS: [(&[&str], &str); 17] = [
    (
        &["serve", "start", "launch"],
        "`longboat run MODEL --serve` serves a model on this machine; `longboat up service.yaml` runs services from manifests",
    ),
    (
        &["apply", "create", "deploy"],
        "services are Kubernetes objects: `kubectl apply -f service.yaml` writes them to a cluster, `longboat up \
         service.yaml` runs them on this machine",
    ),
    (
        &["ps", "list", "ls", "get", "images"],
        "`longboat status` shows services, with the KUBECONFIG that `longboat up` or `longboat run MODEL --serve` prints; \
         `longboat models ls` shows downloaded models",
    ),
    (
        &["log", "logs"],
        "`kubectl logs POD` shows the log of a pod; `longboat status` shows the names of pods",
    ),
    (
        &["exec", "attach"],
        "`kubectl exec POD -- COMMAND` runs a command in a pod; `longboat status` shows the names of pods",
    ),
    (
        &["compose"],
        "`longboat up FOLDER` runs all services of a folder on this machine, and Ctrl-C ends them",
    ),
    (
        &["stop", "down", "kill"],
        "Ctrl-C ends `longboat up` and `longboat run MODEL --serve`, and nothing runs afterwards; `kubectl delete llmisvc NAME` \
         removes one service",
    ),
    (
        &["delete", "rm", "remove"],
        "`kubectl delete llmisvc NAME` removes a service; `longboat models rm MODEL` removes a downloaded model",
    ),
    (
        &["pull", "download"],
        "`longboat models pull MODEL` downloads a model into the cache of this machine; `longboat fetch hf://ORG/MODEL \
         FOLDER` downloads one into a folder",
    ),
    (
        &["chat", "ask", "prompt", "generate"],
        "`longboat run MODEL` chats with a model of this machine; `longboat up service.yaml --prompt \"Hello\"` sends a \
         prompt to services; `longboat dashboard` has a page to chat",
    ),
    (
        &["scale"],
        "set `spec.replicas`, for example with `kubectl patch llmisvc NAME --type=merge -p \
         '{\"spec\":{\"replicas\":2}}'`",
    ),
    (
        &["describe", "show", "inspect"],
        "`longboat explain service.yaml` shows where each field comes from; `longboat status NAME` shows one service; \
         `longboat models show MODEL` shows a model",
    ),
    (
        &["push", "cp"],
        "`longboat run MODEL --manifest` prints a manifest that runs the model on a cluster, which downloads the model itself",
    ),
    (&["check", "lint", "test"], "`longboat validate service.yaml` checks manifests"),
    (&["template", "build"], "`longboat render service.yaml` prints the objects of a service"),
    (&["plan"], "`longboat diff service.yaml` shows what applying manifests would change"),
    (&["top", "ui"], "`longboat dashboard` shows services and their load in a browser"),
];

/// What to do without a model.
const MODELS: &str = "`longboat models show` lists small models, and `longboat run smollm2-135m` runs one of them; MODEL can also be \
                      hf://OWNER/MODEL, a GGUF file, or a folder";

/// Replaces clap's suggestion, which is only similar in spelling, if a verb is known from another program, and names models if the
/// model is missing. `name` is how the executable was called.
pub(super) fn advise(mut error: clap::Error, name: &str) -> clap::Error {
    let advice =
        match (error.kind(), error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
            (ErrorKind::InvalidSubcommand, Some(ContextValue::String(verb)), _) => {
                VERBS.iter().find(|(verbs, _)| verbs.contains(&verb.as_str())).map(|(_, advice)| *advice)
            }
            (ErrorKind::MissingRequiredArgument, _, Some(ContextValue::Strings(missing))) => {
                missing.iter().any(|argument| argument == "<MODEL>").then_some(MODELS)
            }
            _ => None,
        };
    let Some(advice) = advice else { return error };
    let advice = advice.replace("`longboat ", &format!("`{name} "));
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli, program_name::ProgramName};

    fn said(arguments: &[&str]) -> String {
        cli::parse(arguments.iter().map(Into::into).collect()).unwrap_err().render().to_string()
    }

    #[test]
    fn a_verb_of_another_program_comes_with_what_does_the_same() {
        let text = said(&["longboat", "serve", "service.yaml"]);
        assert!(text.starts_with("error: unrecognized subcommand 'serve'"), "{text}");
        assert!(text.contains("tip: `longboat run MODEL --serve` serves a model"), "{text}");
        for (verb, part) in [
            ("pull", "`longboat models pull MODEL`"),
            ("stop", "Ctrl-C ends"),
            ("push", "`longboat run MODEL --manifest`"),
            ("images", "`longboat models ls` shows downloaded models"),
            ("exec", "`kubectl exec POD -- COMMAND`"),
            ("compose", "`longboat up FOLDER`"),
        ] {
            assert!(said(&["longboat", verb]).contains(part), "{verb}");
        }
        let text = said(&["longboat", "ps"]);
        assert!(
            text.contains("tip: `longboat status` shows services") && !text.contains("apiserver"),
            "{text}"
        );
        for arguments in [&["longboat", "run"][..], &["longboat", "models", "pull"]] {
            let text = said(arguments);
            assert!(
                text.contains("  <MODEL>") && text.contains("tip: `longboat models show` lists"),
                "{text}"
            );
        }
        let text = said(&["kubectl-longboat", "plan"]);
        assert!(text.contains("`kubectl longboat diff service.yaml`"), "{text}");
        assert!(said(&["longboat", "statu"]).contains("a similar subcommand exists: 'status'"));
    }

    #[test]
    fn no_verb_of_this_program_is_taken_for_one_of_another() {
        let command = cli::command(ProgramName::Longboat);
        for verb in VERBS.iter().flat_map(|(verbs, _)| *verbs) {
            assert!(command.find_subcommand(verb).is_none(), "{verb}");
        }
    }
}
