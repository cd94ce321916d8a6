//! The cache of local mode: a folder that keeps downloaded models between runs and shares them between services.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use longboat_download::{CACHE_VARIABLE, address::Address};

use crate::{
    FetchError,
    digest::{Algorithm, Digest},
    journal::Journal,
    names::OWN_FOLDER,
    settings::Settings,
    target::{Target, if_found},
};

/// Longest readable part of a folder's name, in bytes.
const MAX_NAME: usize = 150;

/// A cache of models.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// The address of its source, without secrets.
    pub source: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes on the disk, including unfinished files.
    pub bytes: u64,
    /// Files that are complete.
    pub files: usize,
    /// Whether all files were downloaded.
    pub complete: bool,
}

// === impl Cache ===

impl Cache {
    /// Returns the cache of the environment: `LONGBOAT_CACHE`, or `longboat/models` in the XDG cache folder.
    pub fn from_environment() -> Result<Option<Self>, FetchError> {
        Ok(Self::of(&Settings::from_environment()?))
    }

    /// Returns the cache of these settings.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let set = settings.get(CACHE_VARIABLE).map(PathBuf::from);
        let usual = || Some(settings.cache_home()?.join("longboat/models"));
        set.or_else(usual).map(|root| Self { root })
    }

    /// Returns the cache in a folder. The folder need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder for a source with these patterns. Creates the folder if it is missing.
    pub(crate) fn folder(&self, source: &Address, filter: &str) -> Result<PathBuf, FetchError> {
        let folder = self.place(source, filter);
        fs::create_dir_all(&folder).map_err(FetchError::file("create", &folder))?;
        Ok(folder)
    }

    /// Returns the path of this folder, which may not exist.
    pub(crate) fn place(&self, source: &Address, filter: &str) -> PathBuf {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let mut name = source.to_string().replace("://", "--").replace('/', "--");
        name = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(MAX_NAME).collect();
        // The readable part of the name may be equal for different sources, so a hash is appended.
        let sum = Digest::of(Algorithm::Sha256, format!("{}\n{filter}", source.as_str()).as_bytes()).hex();
        self.root.join(format!("{name}--{}", &sum[..8]))
    }

    /// Returns all cached models, sorted by address.
    pub fn list(&self) -> Result<Vec<CachedModel>, FetchError> {
        let entries = if_found(fs::read_dir(&self.root)).map_err(FetchError::file("read", &self.root))?;
        let mut models: Vec<_> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let folder = entry.ok()?.path();
                read(&folder).map_err(FetchError::file("read the journal of", folder)).transpose()
            })
            .collect::<Result<_, _>>()?;
        models.sort_by(|a: &CachedModel, b| (&a.source, &a.folder).cmp(&(&b.source, &b.folder)));
        Ok(models)
    }

    /// Removes and returns every model with this address or folder name. Waits while such a model is being downloaded.
    pub fn remove(&self, name: &str) -> Result<Vec<CachedModel>, FetchError> {
        let address = Address::parse(name).to_string();
        let is_meant = |model: &CachedModel| {
            model.source == address || model.folder.file_name().is_some_and(|folder| folder == name)
        };
        let models: Vec<_> = self.list()?.into_iter().filter(is_meant).collect();
        for model in &models {
            let _lock = Target::open(&model.folder)?;
            remove_tree(&model.folder).map_err(FetchError::file("remove", &model.folder))?;
        }
        Ok(models)
    }
}

fn read(folder: &Path) -> io::Result<Option<CachedModel>> {
    let own = folder.join(OWN_FOLDER);
    let Ok(entries) = fs::read_dir(&own) else { return Ok(None) };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "journal") {
            continue;
        }
        let Some(journal) = Journal::parse(io::BufReader::new(fs::File::open(&path)?))? else { continue };
        return Ok(Some(CachedModel {
            files: journal.files(),
            source: journal.source,
            folder: folder.to_owned(),
            bytes: size(folder),
            complete: journal.complete.is_some(),
        }));
    }
    Ok(None)
}

/// Bytes of all files below a folder. A folder that cannot be read, for example because its path is too long, counts as empty.
fn size(folder: &Path) -> u64 {
    let mut bytes = 0;
    // A list instead of recursion: other programs may have made folders of any depth here.
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Removes a folder with all that is in it. Folders of the second level move up to the first before their parent is removed, so
/// neither the stack, nor open files, nor the length of paths limit the depth.
fn remove_tree(root: &Path) -> io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let mut has_folders = false;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            has_folders = true;
            for child in fs::read_dir(entry.path())? {
                let child = child?;
                if child.file_type()?.is_dir() {
                    // An interrupted removal may have left folders with such names.
                    let free = (moved..).map(|n| (n, root.join(format!("removed-{n}"))));
                    let (n, free) = free
                        .into_iter()
                        .find(|(_, path)| path.symlink_metadata().is_err())
                        .unwrap_or_default();
                    fs::rename(child.path(), free)?;
                    moved = n + 1;
                } else {
                    fs::remove_file(child.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if !has_folders {
            return fs::remove_dir(root);
        }
    }
}

/// Links the files of a cache folder into another folder: with hard links, or with symbolic links on another volume.
pub(crate) fn share(from: &Path, to: &Path) -> Result<(), FetchError> {
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = folders.pop() {
        for entry in fs::read_dir(&from).map_err(FetchError::file("read", &from))? {
            let entry = entry.map_err(FetchError::file("read", &from))?;
            if entry.file_name() == OWN_FOLDER {
                continue;
            }
            let (source, link) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(FetchError::file("read", &source))?;
            if kind.is_dir() {
                fs::create_dir_all(&link).map_err(FetchError::file("create", &link))?;
                folders.push((source, link));
            } else {
                link_file(&source, &link, kind.is_symlink()).map_err(FetchError::file("link", &link))?;
            }
        }
    }
    Ok(())
}

fn link_file(source: &Path, link: &Path, is_symlink: bool) -> io::Result<()> {
    if_found(fs::remove_file(link))?;
    if is_symlink {
        return symlink(fs::read_link(source)?, link);
    }
    fs::hard_link(source, link).or_else(|_| symlink(source, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_any_depth_are_counted_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("model");
        fs::create_dir(&root).unwrap();
        let target = Target::open(&root).unwrap();
        for path in ["x/".repeat(3000) + "x", "a/b".into(), "removed-0/c/d".into()] {
            target.make_folder(&path).unwrap();
        }
        fs::write(root.join("a/b/w"), "12345").unwrap();
        assert_eq!(size(&root), 5);
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }
}
