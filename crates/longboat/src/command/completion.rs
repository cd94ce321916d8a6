//! `longboat completion`: scripts for shells, and the completion of `kubectl longboat`. kubectl completes the arguments of a
//! plugin by running an executable named `kubectl_complete-PLUGIN`.

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::Command;
use clap_complete::{CompletionCandidate, engine};

use crate::{
    cli::{self, CompletionArgs},
    printer,
    program_name::ProgramName,
};

/// The name of the executable that kubectl runs.
const FOR_KUBECTL: &str = "kubectl_complete-longboat";
/// Directive to add no space after the candidate. kubectl's shell scripts define these bits.
const NO_SPACE: u8 = 2;
/// Directive not to complete file names if there is no candidate.
const NO_FILES: u8 = 4;

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs) {
    let called = ProgramName::now();
    // The script for bash treats a dash in the name like the space before a verb.
    let name = called.program().replace('-', "_");
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut listed(&cli::command(called)), &name, &mut script);
    printer::write_piece(&String::from_utf8_lossy(&script).replace(&name, called.program()));
}

/// The command without the verbs that help does not list: scripts would offer them.
fn listed(command: &Command) -> Command {
    let verbs: Vec<Command> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    // clap cannot remove a subcommand, so a new command gets the arguments and the visible verbs.
    Command::new("longboat").args(command.get_arguments().cloned()).subcommands(verbs)
}

/// Whether kubectl has started this process to complete a line.
pub(crate) fn is_asked_by_kubectl(arguments: &[OsString]) -> bool {
    let program = arguments.first().and_then(|program| Path::new(program).file_name());
    program.is_some_and(|program| program == FOR_KUBECTL)
}

/// Prints the completions of a line. `arguments` are the words after `kubectl longboat`; the last word may be empty or
/// incomplete.
pub(crate) fn for_kubectl(arguments: Vec<OsString>) -> ExitCode {
    let folder = std::env::current_dir().ok();
    printer::write_piece(&answer(arguments, folder.as_deref()));
    ExitCode::SUCCESS
}

/// Returns one line per candidate, with its description after a tab, and a last line with the directives for the shell.
fn answer(arguments: Vec<OsString>, folder: Option<&Path>) -> String {
    let last = arguments.len().saturating_sub(1).max(1);
    let found = engine::complete(&mut cli::command(ProgramName::Plugin), arguments, last, folder);
    let found: Vec<String> = found.unwrap_or_default().iter().filter_map(line).collect();
    let in_folders = !found.is_empty() && found.iter().all(|line| line.ends_with('/'));
    let directive = NO_FILES | if in_folders { NO_SPACE } else { 0 };
    found.into_iter().chain([format!(":{directive}")]).map(|line| line + "\n").collect()
}

fn line(candidate: &CompletionCandidate) -> Option<String> {
    let value = candidate.get_value().to_str()?;
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    Some(match help.lines().next() {
        Some(help) if !candidate.is_hide_set() => format!("{value}\t{help}"),
        _ => value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(words: &[&str]) -> Vec<String> {
        let arguments = [FOR_KUBECTL].iter().chain(words).map(Into::into).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let lines = answer(arguments, Some(Path::new(folder)));
        lines.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn scripts_offer_no_hidden_verbs() {
        let names = |command: &Command| -> Vec<String> {
            command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
        };
        let command = cli::command(ProgramName::Longboat);
        let (all, listed) = (names(&command), names(&listed(&command)));
        assert!(
            listed.contains(&"doctor".to_owned()) && !listed.contains(&"cli-reference".to_owned()),
            "{listed:?}"
        );
        assert!(all.contains(&"cli-reference".to_owned()), "{all:?}");
    }

    #[test]
    fn kubectl_is_told_verbs_flags_values_and_files() {
        assert_eq!(answered(&["re"]), ["render", ":4"]);
        let verbs = answered(&[""]);
        assert!(
            verbs.contains(&"doctor".to_owned()) && !verbs.contains(&"controller".to_owned()),
            "{verbs:?}"
        );
        assert_eq!(answered(&["status", "--all"]), ["--all-namespaces", ":4"]);
        assert_eq!(answered(&["render", "-o", ""]), ["yaml", "json", ":4"]);
        assert_eq!(answered(&["render", "single-"]), ["single-node/", ":6"]);
        assert_eq!(answered(&["status", "-n", ""]), [":4"]);
        assert_eq!(answered(&["nonsense", "x"]), [":4"]);
    }

    #[test]
    fn what_a_candidate_is_about_stands_behind_a_tab() {
        let arguments = [FOR_KUBECTL, "crd"].map(Into::into).to_vec();
        assert_eq!(answer(arguments, None), "crds\tPrint the CustomResourceDefinitions\n:4\n");
    }
}
