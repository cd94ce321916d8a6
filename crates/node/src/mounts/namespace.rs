//! The mounts of one process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::pivot_root;

use super::plan::{MountError, Plan, deepest_existing};
use crate::private;

/// What a program may write into a folder that got a mount point. It is memory, and nobody needs it.
const MAX_STRAY_BYTES: u32 = 16 << 20;

/// Moves this process to a mount namespace with the mounts of `plan`, and to its folder.
pub(super) fn enter(plan: &Plan) -> Result<(), MountError> {
    leave_common_namespace().map_err(failed("create a mount namespace for", Path::new("this process")))?;
    let mut writable = WritableFolders::default();
    for (path, local) in &plan.mounts {
        let (existing, missing) = deepest_existing(path);
        let mut target = existing.clone();
        // Joining an empty path would add a slash, with which the kernel finds folders only.
        target.extend(&missing);
        let made = if missing.as_os_str().is_empty() {
            Ok(())
        } else {
            writable.open(&existing, &plan.root)?;
            writable.create(&existing, &target, local.is_dir())
        };
        made.and_then(|()| bind(local, &target)).map_err(failed("mount a volume at", path))?;
        writable.volumes.push(target);
    }
    std::env::set_current_dir(&plan.cwd).map_err(failed("change to", &plan.cwd))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MountError {
    let path = path.to_owned();
    move |source| MountError::Action { action, path, source }
}

/// The administrator may create mount namespaces. Everyone else must first create a user namespace. In it the process is the
/// same user, and loses all rights of an administrator as soon as it runs another program.
fn leave_common_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    match unshare(CloneFlags::CLONE_NEWNS) {
        Err(Errno::EPERM) => {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
            // The kernel wants this before it accepts a map of groups.
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
            fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))?;
        }
        done => done?,
    }
    // Mounts that this machine gets later appear here, too, but none of ours appears there.
    Ok(mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?)
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    // A user namespace must not take a mount without the mounts that cover parts of it.
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    Ok(mount(Some(source), target, None::<&str>, flags, None::<&str>)?)
}

/// The folders in which mount points can be created without a trace on this machine.
#[derive(Default)]
struct WritableFolders {
    /// Folders in memory.
    folders: BTreeSet<PathBuf>,
    volumes: Vec<PathBuf>,
}

impl WritableFolders {
    /// Replaces a folder by one in memory with the same entries, unless mount points can already be created in it.
    fn open(&mut self, folder: &Path, root: &Path) -> Result<(), MountError> {
        if self.folders.contains(folder) || self.volumes.iter().any(|volume| folder.starts_with(volume)) {
            return Ok(());
        }
        let replaced = if folder == Path::new("/") { replace_root(root) } else { replace(folder) };
        replaced.map_err(failed("copy the entries of", folder))?;
        self.folders.insert(folder.to_owned());
        Ok(())
    }

    /// Creates a mount point.
    fn create(&mut self, existing: &Path, target: &Path, is_dir: bool) -> io::Result<()> {
        let parent = if is_dir { target } else { target.parent().unwrap_or(target) };
        fs::create_dir_all(parent)?;
        let created = parent.ancestors().take_while(|path| *path != existing);
        self.folders.extend(created.map(Path::to_owned));
        if is_dir { Ok(()) } else { File::create(target).map(drop) }
    }
}

/// Replaces a folder other than the root folder.
fn replace(folder: &Path) -> io::Result<()> {
    // Below the new mount, the folder can only be reached through what was opened before.
    let covered = File::open(folder)?;
    let entries = entries(folder)?;
    mount_memory(folder, folder)?;
    fill(folder, &PathBuf::from(format!("/proc/self/fd/{}", covered.as_raw_fd())), &entries)
}

/// Replaces the root folder. It cannot be covered, because a process starts all paths below what covers it.
fn replace_root(root: &Path) -> io::Result<()> {
    let old = Path::new("/");
    let entries = entries(old)?;
    mount_memory(root, old)?;
    // Otherwise the new root would contain itself.
    mount(None::<&str>, root, None::<&str>, MsFlags::MS_UNBINDABLE, None::<&str>)?;
    fill(root, old, &entries)?;
    std::env::set_current_dir(root)?;
    // Puts the old root over the new one, from where it is removed.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir(old)
}

fn entries(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Mounts an empty folder in memory, with the access mode of another folder.
fn mount_memory(at: &Path, like: &Path) -> io::Result<()> {
    let options = format!("mode={:o},size={MAX_STRAY_BYTES}", like.metadata()?.mode() & 0o7777);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("longboat"), at, Some("tmpfs"), flags, Some(options.as_str()))?)
}

/// Makes `to` look like `from`, which has these entries.
fn fill(to: &Path, from: &Path, entries: &[OsString]) -> io::Result<()> {
    for entry in entries {
        // The entry may have been removed in the meantime.
        private::if_found(copy_entry(&from.join(entry), &to.join(entry)))?;
    }
    Ok(())
}

fn copy_entry(source: &Path, target: &Path) -> io::Result<()> {
    let kind = source.symlink_metadata()?.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    if kind.is_dir() {
        fs::create_dir(target)?;
    } else {
        File::create(target)?;
    }
    bind(source, target)
}
