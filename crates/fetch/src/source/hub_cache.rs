//! The cache of the hub's own client on this machine: `models--OWNER--NAME/{refs,snapshots,blobs}`. It is only read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::hub_wire::{digest, is_commit};
use crate::{
    remote::{Identity, RemoteFile},
    settings::Settings,
};

/// The most levels of folders in a model.
const MAX_DEPTH: usize = 32;

/// The cached files of one model.
#[derive(Debug)]
pub(super) struct HubCache {
    folder: PathBuf,
}

/// Returns the folder of the hub's client: `HF_HOME`, or its default.
pub(super) fn home(settings: &Settings) -> Option<PathBuf> {
    let set = settings.get("HF_HOME").map(PathBuf::from);
    set.or_else(|| Some(settings.cache_home()?.join("huggingface")))
}

// === impl HubCache ===

impl HubCache {
    /// Returns the cache of a model, if there is one.
    pub(super) fn new(settings: &Settings, repository: &str) -> Option<Self> {
        let set = settings.get("HF_HUB_CACHE").or_else(|| settings.get("HUGGINGFACE_HUB_CACHE"));
        let hub = set.map(PathBuf::from).or_else(|| Some(home(settings)?.join("hub")))?;
        let folder = hub.join(format!("models--{}", repository.replace('/', "--")));
        folder.join("blobs").is_dir().then_some(Self { folder })
    }

    /// Returns the cached content of a file if it has the right size. The caller must check its digest.
    pub(super) fn find(&self, file: &RemoteFile) -> Option<PathBuf> {
        let digest = file.digest.as_ref()?;
        let blob = self.folder.join("blobs").join(digest.hex());
        let size = blob.metadata().ok().filter(fs::Metadata::is_file)?.len();
        (Some(size) == file.size).then_some(blob)
    }

    /// Returns the commit and the cached files of a revision. The cache does not show whether all files are there. Returns
    /// `None` while a file is being downloaded, because the files are then incomplete.
    pub(super) fn list(&self, revision: &str) -> Option<(String, Vec<RemoteFile>)> {
        let is_unfinished =
            |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with(".incomplete");
        if fs::read_dir(self.folder.join("blobs")).ok()?.filter_map(Result::ok).any(is_unfinished) {
            return None;
        }
        let commit = if is_commit(revision) {
            revision.to_owned()
        } else {
            let named = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
            Some(named.trim().to_owned()).filter(|commit| is_commit(commit))?
        };
        let mut files = Vec::new();
        walk(&self.folder.join("snapshots").join(&commit), "", MAX_DEPTH, &mut files)?;
        Some((commit, files))
    }
}

fn walk(folder: &Path, below: &str, depth: usize, files: &mut Vec<RemoteFile>) -> Option<()> {
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            walk(&entry.path(), &path, depth.checked_sub(1)?, files)?;
            continue;
        }
        let target = fs::canonicalize(entry.path()).ok()?;
        let mut file = RemoteFile::new(&path, &path);
        file.size = Some(target.metadata().ok()?.len());
        file.digest = Some(digest(&target.file_name()?.to_string_lossy())?);
        file.identity = Identity::Digest;
        files.push(file);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::digest::{Algorithm, Digest};

    #[test]
    fn a_snapshot_is_listed_with_its_digests_unless_something_is_unfinished() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("models--o--m");
        let commit = "c".repeat(40);
        let snapshot = model.join("snapshots").join(&commit);
        fs::create_dir_all(snapshot.join("d")).unwrap();
        fs::create_dir_all(model.join("blobs")).unwrap();
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), &commit).unwrap();
        let blob = Digest::of(Algorithm::Sha256, b"w").hex();
        fs::write(model.join("blobs").join(&blob), "w").unwrap();
        symlink(format!("../../../blobs/{blob}"), snapshot.join("d/w")).unwrap();
        let home = dir.path().display().to_string();
        let settings = Settings::new([("HF_HUB_CACHE".to_owned(), home)]).unwrap();
        assert!(HubCache::new(&settings, "o/other").is_none());
        let cache = HubCache::new(&settings, "o/m").unwrap();
        let (found, files) = cache.list("main").unwrap();
        assert_eq!((found, files.len()), (commit, 1));
        assert_eq!(cache.find(&files[0]), Some(model.join("blobs").join(&blob)));
        fs::write(model.join("blobs/x.incomplete"), "").unwrap();
        assert!(cache.list("main").is_none());
    }
}
