//! Checks the command of `--engine CMD` before anything starts.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use anyhow::bail;
use longboat_key::nearest;
use longboat_node::container::is_program;

/// Characters of a program's name that a shell does not interpret.
const PLAIN: &str = "/._-+@%:,";

/// Checks that the program of a command line exists. Containers would only fail one after the other, without end.
///
/// # Errors
///
/// If there is no such program. A command that only a shell can read is not checked.
pub(super) fn check(command: &str, path: Option<&OsStr>) -> anyhow::Result<()> {
    const EXPECTED: &str =
        "expected `auto`, `cpu`, `sim`, or a command that takes the arguments of `vllm serve`";
    let Some(program) = command.split_whitespace().next() else {
        bail!("--engine is empty: {EXPECTED}");
    };
    if !program.chars().all(|c| c.is_alphanumeric() || PLAIN.contains(c)) {
        return Ok(());
    }
    if program.contains('/') {
        let is_relative = Path::new(program).is_relative();
        if is_relative && is_program(Path::new(program)) {
            bail!(
                "--engine: `{program}` is a relative path, and containers have folders of their own: write the absolute \
                 path"
            );
        }
        if is_relative || !is_program(Path::new(program)) {
            bail!("--engine: `{program}` is not a program that this user may run: {EXPECTED}");
        }
        return Ok(());
    }
    let folders: Vec<PathBuf> = path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    if folders.iter().any(|folder| is_program(&folder.join(program))) {
        return Ok(());
    }
    let meant = nearest(["auto", "cpu", "sim"], program);
    let hint = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    bail!("--engine: there is no program `{program}` in the folders of PATH: {EXPECTED}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_needs_a_program_that_exists() {
        let said = |command: &str| {
            let found = check(command, Some(OsStr::new("/nonexistent:/bin:/usr/bin")));
            found.err().map(|error| error.to_string())
        };
        for right in ["sh", "sh -c x", "/bin/sh", "env A=b vllm", "\"$HOME/x\" --flag", "$ENGINE"] {
            assert_eq!(said(right), None, "{right}");
        }
        for (wrong, part) in [
            ("nosuchcommand --fast", "there is no program `nosuchcommand` in the folders of PATH"),
            ("simm", "did you mean `sim`?"),
            ("/bin/nosuchcommand", "`/bin/nosuchcommand` is not a program"),
            ("./nosuchcommand", "`./nosuchcommand` is not a program"),
            ("/bin", "`/bin` is not a program"),
            (" ", "--engine is empty"),
        ] {
            let error = said(wrong).unwrap();
            assert!(error.contains(part), "{error}");
            assert!(error.contains("expected `auto`, `cpu`, `sim`"), "{error}");
        }
    }
}
