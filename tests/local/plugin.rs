//! The binary as a kubectl plugin, and its shell completion scripts.

use std::{
    env,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    local_cluster::{LocalCluster, example},
    program::{Ended, run},
    tools,
};

const LONGBOAT: &str = env!("CARGO_BIN_EXE_longboat");

/// Creates a folder with links to the binary under the plugin's names.
fn linked() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["kubectl-longboat", "kubectl_complete-longboat"] {
        symlink(LONGBOAT, folder.path().join(name)).unwrap();
    }
    folder
}

/// Runs kubectl with the plugin's folder in `PATH`. Returns `None` without kubectl.
fn kubectl(folder: &Path, arguments: &[&str]) -> Option<Ended> {
    let others = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&others))).unwrap();
    let mut command = Command::new(tools::kubectl()?);
    Some(run(command.args(arguments).env("PATH", path).env("HOME", folder)))
}

#[test]
fn under_the_name_of_a_plugin_it_does_the_same_and_says_how_it_was_called() {
    let folder = linked();
    let plugin = folder.path().join("kubectl-longboat");
    let said = |program: &Path, arguments: &[&str]| run(Command::new(program).args(arguments)).ok();
    let example = example();
    let render = ["render", example.to_str().unwrap()];
    assert_eq!(said(&plugin, &render), said(Path::new(LONGBOAT), &render));
    for (verb, usage) in [
        ("render", "Usage: kubectl longboat render [OPTIONS] [MANIFEST]..."),
        ("explain", "Usage: kubectl longboat explain [OPTIONS] <SERVICE|FILE> [PATH]"),
        ("diff", "Usage: kubectl longboat diff [OPTIONS] [MANIFEST]..."),
        ("doctor", "Usage: kubectl longboat doctor [OPTIONS] [SERVICE]..."),
        ("status", "Usage: kubectl longboat status [OPTIONS] [SERVICE]..."),
    ] {
        let help = said(&plugin, &[verb, "--help"]);
        assert!(help.contains(usage), "{usage}: {help}");
    }
    let mistake = run(Command::new(&plugin).args(["status", "--bogus"]));
    assert_eq!(mistake.status.code(), Some(2), "{mistake:#?}");
    assert!(mistake.stderr.contains("Usage: kubectl longboat status"), "{}", mistake.stderr);
}

#[test]
fn kubectl_runs_the_plugin_and_completes_its_lines() {
    let folder = linked();
    let example = example();
    let example = example.to_str().unwrap();
    let Some(rendered) = kubectl(folder.path(), &["longboat", "render", example]) else { return };
    assert_eq!(rendered.ok(), run(Command::new(LONGBOAT).args(["render", example])).ok());
    // The calls that kubectl's shell completion scripts make.
    let completed = kubectl(folder.path(), &["__complete", "longboat", "doc"]).unwrap().ok();
    assert!(completed.starts_with("doctor\t"), "{completed}");
    assert!(completed.ends_with("\n:4\n"), "{completed}");
    let completed =
        kubectl(folder.path(), &["__complete", "longboat", "render", "--output", "j"]).unwrap().ok();
    assert!(completed.starts_with("json"), "{completed}");
}

#[test]
fn the_plugin_looks_at_the_cluster_that_kubectl_looks_at() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let folder = linked();
    let kubeconfig = world.kubeconfig.to_str().unwrap();
    let status = ["longboat", "status", "--kubeconfig", kubeconfig];
    let status = kubectl(folder.path(), &status).unwrap().ok();
    assert!(status.contains("qwen"), "{status}");
}

/// Returns bash's completions of a command line, by the completion script of a program.
fn proposed(program: &Path, line: &str) -> String {
    let name = program.file_name().unwrap().to_str().unwrap();
    let script = format!(
        r#"source <("$0" completion bash)
        read -ra COMP_WORDS <<< "{line}"
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        complete -p {name} | grep -o -- '-F [^ ]*' | {{ read -r _ complete; "$complete" {name} "${{COMP_WORDS[COMP_CWORD]}}" \
            "${{COMP_WORDS[COMP_CWORD-1]}}"; echo "${{COMPREPLY[@]}}"; }}"#
    );
    run(Command::new("bash").arg("-c").arg(script).arg(program).stdin(Stdio::null())).ok()
}

#[test]
fn the_script_for_bash_completes_under_either_name() {
    let folder = linked();
    for program in [LONGBOAT.into(), folder.path().join("kubectl-longboat")] {
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(proposed(&program, &format!("{name} doc")), "doctor\n");
        assert_eq!(proposed(&program, &format!("{name} status --all")), "--all-namespaces\n");
        assert_eq!(proposed(&program, &format!("{name} crds --output j")), "json\n");
    }
}

#[test]
fn there_is_a_script_for_each_shell_which_names_every_verb() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(Command::new(LONGBOAT).args(["completion", shell])).ok();
        for verb in ["up", "render", "explain", "diff", "doctor", "status", "install", "completion"] {
            assert!(script.contains(verb), "{verb} for {shell}");
        }
    }
}
