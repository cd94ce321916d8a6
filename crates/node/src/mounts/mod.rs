//! Volumes at the paths of the manifest: each container has a mount namespace, where the kernel allows it.
//!
//! A container starts through the `mount-namespace` role of the executable ([`namespace`]), which mounts the volumes and then
//! becomes the container's program. So do the commands of probes, hooks and `kubectl exec`: each gets a namespace of its own
//! with the same mounts, which costs less than to find and enter that of the container. The rest of the file system is this
//! machine's. Therefore [`Mounts::can_bind`] refuses what would hide something that containers need. Such paths are rewritten
//! ([`crate::container::paths`]), and so are all paths where there are no namespaces.

#[cfg(target_os = "linux")]
mod namespace;
mod plan;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{ExitCode, Stdio};

use tokio::process::Command;

use crate::container::paths::PathMap;
use crate::hosts::HOSTS;
use crate::volume::SERVICE_ACCOUNT;
use plan::{MountError, Plan, deepest_existing};

/// The first argument with which the executable runs this role.
pub const ROLE: &str = "mount-namespace";

/// The exit code of a shell that cannot run a program.
const CANNOT_RUN: u8 = 126;

/// The kernel's file systems. They stay as they are: devices appear while containers run (CUDA creates some at its first
/// use), and `/dev/shm` is in memory, which a folder on a disk is not.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// How the containers of a node get mount namespaces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mounts {
    executable: PathBuf,
    root: PathBuf,
    /// What containers need of this machine.
    kept: BTreeSet<PathBuf>,
}

impl Mounts {
    /// Uses the empty folder `root`. Containers need the paths of `kept` as they are.
    pub(crate) fn new(executable: PathBuf, root: PathBuf, kept: impl IntoIterator<Item = PathBuf>) -> Self {
        let kept = kept.into_iter().chain([std::env::temp_dir(), executable.clone(), root.clone()]);
        // Paths that do not exist hide nothing. A link and its target are both needed.
        let kept = kept.filter_map(|path| Some([path.canonicalize().ok()?, path])).flatten();
        let kept = kept.filter(|path| path.parent().is_some()).collect();
        Self { executable, root, kept }
    }

    /// Makes a mount namespace as containers would get it. The error says why this is not possible here.
    pub(crate) async fn attempt(&self) -> Result<(), String> {
        // No root folder has the first entry, so this also tries to replace the root folder. Most containers have the second.
        let missing = format!("/longboat-{:016x}", rand::random::<u64>());
        let paths = [missing.as_str(), SERVICE_ACCOUNT].map(PathBuf::from);
        let bound = paths.into_iter().filter(|path| self.can_bind(path, &self.root));
        let mut mounts: Vec<_> = bound.map(|path| (path, self.root.clone())).collect();
        // A file over a file.
        let hosts = PathBuf::from(HOSTS);
        mounts.extend(self.can_bind(&hosts, &hosts).then(|| (hosts.clone(), hosts)));
        let plan = Plan { mounts, root: self.root.clone(), cwd: "/".into() };
        let mut command = self.command_with(&plan);
        let output = command.stdin(Stdio::null()).output().await;
        let output = output.map_err(|error| format!("cannot run {}: {error}", self.executable.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}", output.status, message.trim()))
    }

    /// Whether a file or folder can be mounted at a path, and the container still finds what it needs.
    pub(crate) fn can_bind(&self, path: &Path, local: &Path) -> bool {
        // A pod without a token has no folder for it.
        if !path.is_absolute()
            || !local.exists()
            || path.components().any(|part| part == Component::ParentDir)
        {
            return false;
        }
        let (existing, missing) = deepest_existing(path);
        let target = existing.join(&missing);
        if KERNEL.iter().any(|folder| target.starts_with(folder))
            || self.kept.iter().any(|kept| kept.starts_with(&target))
        {
            return false;
        }
        let Some(first) = missing.components().next() else { return existing.is_dir() == local.is_dir() };
        // A folder that gets a missing mount point is replaced, so new files in it are not this machine's. Its entries must
        // be readable for that. A link to nothing cannot become a mount point.
        let nothing = existing.join(first).symlink_metadata();
        !self.kept.iter().any(|kept| existing.starts_with(kept))
            && existing.read_dir().is_ok()
            && nothing.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns the start of a command line that runs `program` in `cwd`, with the bound mounts of `paths`.
    pub(crate) fn command(&self, paths: &PathMap, cwd: &Path, program: &Path) -> Command {
        let mounts = paths.bound().map(|(mount, local)| (mount.into(), local.into())).collect();
        let mut command = self.command_with(&Plan { mounts, root: self.root.clone(), cwd: cwd.to_owned() });
        command.arg(program);
        command
    }

    fn command_with(&self, plan: &Plan) -> Command {
        let mut command = Command::new(&self.executable);
        // The paths come from manifests, so they are text, and text is always valid JSON.
        command.arg(ROLE).arg(serde_json::to_string(plan).unwrap_or_default());
        command
    }
}

/// Runs the role: mounts what the first argument describes, and becomes the program that follows. The process must have a
/// single thread. Returns only if there is no program, or if something fails.
#[expect(clippy::print_stderr, reason = "the container's log is the only place for the message")]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match enter_and_run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(CANNOT_RUN)
        }
    }
}

fn enter_and_run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), MountError> {
    let mut arguments = arguments.into_iter();
    let plan = arguments.next().and_then(|plan| serde_json::from_str(plan.to_str()?).ok());
    enter(&plan.ok_or(MountError::Plan)?)?;
    let Some(program) = arguments.next() else { return Ok(()) };
    let source =
        std::os::unix::process::CommandExt::exec(std::process::Command::new(&program).args(arguments));
    Err(MountError::Action { action: "run", path: program.into(), source })
}

#[cfg(target_os = "linux")]
use namespace::enter;

#[cfg(not(target_os = "linux"))]
fn enter(_plan: &Plan) -> Result<(), MountError> {
    Err(MountError::System)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_hide_nothing_that_containers_need() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (volume, home) = (at("volume"), at("home/me"));
        let mounts = Mounts { executable: "/x".into(), root: "/x".into(), kept: [home.clone()].into() };
        let can = |path: &Path| mounts.can_bind(path, &volume);
        assert!(can(&at("there")) && can(&dir.path().join("missing/folder")));
        assert!(can(Path::new("/models-of-nobody")), "the root folder gets an entry");
        for refused in [
            dir.path().join("home"),
            home.clone(),
            home.join("new/folder"),
            "/".into(),
            "/dev/shm".into(),
            "/dev/termination-log".into(),
            "/sys/x".into(),
            dir.path().join("there/../home"),
            "relative".into(),
        ] {
            assert!(!can(&refused), "{}", refused.display());
        }
        assert!(can(&at("home/me/there")), "a folder that exists is covered, nothing else");
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(!can(&dir.path().join("file")) && !can(&dir.path().join("file/below")));
        assert!(mounts.can_bind(&dir.path().join("file"), &dir.path().join("file")));
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(!can(&dir.path().join("dangling")));
        assert!(!mounts.can_bind(&at("there"), &dir.path().join("no-volume")));
    }

    #[test]
    fn only_paths_that_exist_are_kept() {
        let mounts = Mounts::new("/bin/sh".into(), "/".into(), ["/nothing/here".into(), "/usr".into()]);
        assert!(mounts.kept.contains(Path::new("/usr")) && mounts.kept.contains(Path::new("/bin/sh")));
        assert!(!mounts.kept.contains(Path::new("/")) && !mounts.kept.contains(Path::new("/nothing/here")));
    }
}
