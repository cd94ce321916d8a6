//! Finds the program of this machine that runs in place of a command.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::host::Host;
use super::paths::PathMap;
use super::roles;

/// Finds the program for a command's first word. Returns the program, the arguments that precede the others, and how many of
/// the other words it replaces.
pub(super) fn resolve(
    host: &Host,
    first: &str,
    rest: &[String],
    search: &str,
    paths: &PathMap,
) -> Option<(PathBuf, &'static [&'static str], usize)> {
    if let Some(link) = roles::for_entry_point(first) {
        return Some((host.bin_dir.join(link), &[], 0));
    }
    let python = first.rsplit('/').next().is_some_and(|name| name.starts_with("python"));
    if python
        && matches!(rest, [m, module, ..] if m == "-m" && module == "vllm.entrypoints.openai.api_server")
    {
        return Some((host.bin_dir.join("vllm"), &["serve"], 2));
    }
    if python && matches!(rest, [m, module, ..] if m == "-m" && module == roles::SGLANG_MODULE) {
        return Some((host.bin_dir.join("longboat"), roles::SGLANG, 2));
    }
    let name = first.rsplit('/').next().unwrap_or(first);
    if let Some(server) = roles::SERVERS.iter().find(|server| server.program == name) {
        return Some(if server.label == host.engine.label() {
            (host.bin_dir.join(name), &[], 0)
        } else {
            (host.bin_dir.join("longboat"), server.simulator, 0)
        });
    }
    let found = if first.contains('/') {
        let path = PathBuf::from(paths.rewrite(first));
        // Images disagree on `/bin` and `/usr/bin`, so manifests may have the wrong one. If the path does not exist, the
        // name decides.
        if is_program(&paths.outside(first)) { Some(path) } else { standard_program(&path, search) }
    } else {
        search_path(search, first)
            .find(|path| path.to_str().is_some_and(|path| is_program(&paths.outside(path))))
    };
    found.map(|program| (program, &[][..], 0))
}

/// Looks for a program such as `/bin/bash` elsewhere in the search path. Only applies to the standard folders of programs.
fn standard_program(path: &Path, search: &str) -> Option<PathBuf> {
    let folder = path.parent()?.to_str()?;
    matches!(folder, "/bin" | "/usr/bin" | "/usr/local/bin")
        .then(|| find_in(search, path.file_name()?.to_str()?))
        .flatten()
}

/// Finds a program in the folders of a search path.
pub(super) fn find_in(search: &str, name: &str) -> Option<PathBuf> {
    search_path(search, name).find(|path| is_program(path))
}

fn search_path(search: &str, name: &str) -> impl Iterator<Item = PathBuf> {
    search.split(':').filter(|dir| !dir.is_empty()).map(move |dir| Path::new(dir).join(name))
}

/// Whether a path is an executable file.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
