//! `longboat cli-reference`: prints every verb, role and flag in the form of docs/reference/cli.md.

use std::{fmt::Write as _, process::ExitCode};

use clap::{Arg, ArgAction, Command};

use crate::{called::Called, cli, printer};

const HEAD: &str = "\
# The command line

Written by `cargo run -- cli-reference > docs/reference/cli.md`; a test compares. `longboat VERB --help` says the same.

Under the name `kubectl-longboat` (a link is enough) on `PATH`, the executable is a plugin: `kubectl longboat status`.
`longboat completion SHELL` prints a script for a shell, for the name under which it is called; kubectl completes the lines of
its plugins by asking an executable named `kubectl_complete-longboat`, which may be another link to the same file:

```console not-run: changes your shell
$ ln -s \"$(command -v longboat)\" ~/.local/bin/kubectl-longboat
$ ln -s \"$(command -v longboat)\" ~/.local/bin/kubectl_complete-longboat
$ source <(longboat completion bash)
```
";

/// Prints the document.
pub(crate) fn run() -> ExitCode {
    printer::piece(&document());
    ExitCode::SUCCESS
}

fn document() -> String {
    let mut command = cli::command(Called::Longboat);
    command.build();
    let mut text = HEAD.to_owned();
    for verb in command.get_subcommands().filter(|verb| is_shown(verb)) {
        section(&mut text, verb, "longboat");
    }
    text
}

/// clap's own `help` has no section.
fn is_shown(verb: &Command) -> bool {
    !verb.is_hide_set() && verb.get_name() != "help"
}

fn section(text: &mut String, verb: &Command, above: &str) {
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let name = format!("{above} {}", verb.get_name());
    let _ = write!(text, "\n## `{name}`\n\n{about}.");
    for alias in verb.get_visible_aliases() {
        let _ = write!(text, " Also `longboat {alias}`.");
    }
    let _ = write!(text, "\n\n```text\n{usage}\n```\n");
    let shown = |argument: &&Arg| {
        let is_usual = matches!(argument.get_action(), ArgAction::Help | ArgAction::Version);
        !argument.is_hide_set() && !is_usual
    };
    let arguments: Vec<&Arg> = verb.get_arguments().filter(shown).collect();
    list(text, arguments.iter().copied().filter(|argument| argument.get_help_heading().is_none()));
    let mut headings: Vec<&str> = Vec::new();
    for heading in arguments.iter().filter_map(|argument| argument.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(text, "\n### {heading}\n");
        list(text, arguments.iter().copied().filter(|argument| argument.get_help_heading() == Some(heading)));
    }
    if let Some(more) = verb.get_after_help() {
        let _ = write!(text, "\n```text\n{}\n```\n", more.to_string().trim_end());
    }
    for verb in verb.get_subcommands().filter(|verb| is_shown(verb)) {
        section(text, verb, &name);
    }
}

/// Lists the arguments, positional ones first.
fn list<'a>(text: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let (places, flags): (Vec<&Arg>, Vec<&Arg>) = arguments.partition(|argument| argument.is_positional());
    for (at, argument) in places.into_iter().chain(flags).enumerate() {
        if at == 0 {
            text.push('\n');
        }
        item(text, argument);
    }
}

fn item(text: &mut String, argument: &Arg) {
    let names: Vec<String> = spellings(argument).iter().map(|name| format!("`{name}`")).collect();
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = write!(text, "- {}: {}.", names.join(", "), help.trim_end_matches('.'));
    if argument.get_action().takes_values() {
        let values = argument.get_possible_values();
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| match value.get_help() {
                Some(help) => {
                    format!("`{}` ({})", value.get_name(), help.to_string().trim_end_matches('.'))
                }
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        if !values.is_empty() {
            let _ = write!(text, " One of {}.", values.join("; "));
        }
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = defaults.join(",");
        if !default.is_empty() {
            let _ = write!(text, " Default: `{default}`.");
        }
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, " Environment: `{}`.", variable.to_string_lossy());
    }
    text.push('\n');
}

/// Returns the spellings of an argument: every name of a flag, the last one with its value.
fn spellings(argument: &Arg) -> Vec<String> {
    if argument.is_positional() {
        return vec![argument.to_string()];
    }
    let short = argument.get_short_and_visible_aliases().unwrap_or_default();
    let long = argument.get_long_and_visible_aliases().unwrap_or_default();
    let mut all: Vec<String> = short
        .iter()
        .map(|name| format!("-{name}"))
        .chain(long.iter().map(|name| format!("--{name}")))
        .collect();
    // clap writes a flag as `--name <VALUE>`, or with `=` if that is required.
    let whole = argument.to_string();
    let value = whole.find([' ', '=', '[']).map(|at| whole[at..].to_owned());
    if let (Some(last), Some(value)) = (all.last_mut(), value) {
        last.push_str(&value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
        let stored = std::fs::read_to_string(path).unwrap();
        // The document shows no values of environment variables: clap reads the environment only when it parses.
        assert!(
            stored == document(),
            "docs/reference/cli.md is out of date: cargo run -- cli-reference > docs/reference/cli.md"
        );
    }

    #[test]
    fn every_flag_of_every_verb_and_role_is_in_it() {
        let document = document();
        let mut command = cli::command(Called::Longboat);
        command.build();
        for verb in command.get_subcommands().filter(|verb| is_shown(verb)) {
            for flag in verb.get_arguments().filter(|flag| !flag.is_hide_set() && flag.get_id() != "help") {
                let Some(long) = flag.get_long().filter(|long| *long != "version") else { continue };
                assert!(document.contains(&format!("`--{long}")), "--{long} of {}", verb.get_name());
            }
        }
    }
}
