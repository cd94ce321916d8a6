//! Models that are already on this machine. They are linked, not copied, because weights are large and are never changed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use longboat_download::address::{Address, Scheme};

use crate::{
    FetchError,
    archive::Stage,
    filter::Filter,
    names::{OWN_FOLDER, is_archive},
    remote::Members,
    target::Target,
};

/// Returns the path that a source names. Returns `None` if the source is not local.
pub(crate) fn path_of(source: &Address) -> Result<Option<PathBuf>, FetchError> {
    let path = PathBuf::from(source.rest());
    let uri = || source.as_str().to_owned();
    match source.scheme() {
        Scheme::File if source.rest().is_empty() => {
            Err(FetchError::Address { uri: uri(), why: "expected file://PATH".into() })
        }
        Scheme::File if !path.exists() => Err(FetchError::NoLocalPath { uri: uri() }),
        Scheme::Absent if source.rest().starts_with("/mnt/pvc") && !path.exists() => {
            Err(FetchError::NoClaimPath { uri: uri() })
        }
        Scheme::File | Scheme::Absent => Ok(Some(path).filter(|path| path.exists())),
        _ => Ok(None),
    }
}

/// Links the visible entries of a folder, or a single file, into a folder. A single archive is unpacked.
pub(crate) fn link(source: &Path, destination: &Path, filter: &Filter) -> Result<(), FetchError> {
    let source = std::path::absolute(source).map_err(FetchError::file("find", source))?;
    let entries = if source.is_dir() {
        check_outside(&source, destination)?;
        let names = || -> io::Result<Vec<PathBuf>> {
            fs::read_dir(&source)?.map(|entry| Ok(entry?.path())).collect()
        };
        let mut entries = names().map_err(FetchError::file("read", &source))?;
        entries.sort();
        entries
    } else {
        vec![source.clone()]
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_wanted = |path: &PathBuf| {
        let name = name(path);
        (!name.starts_with('.') || *path == source) && filter.wants(&name)
    };
    let entries: Vec<PathBuf> = entries.into_iter().filter(is_wanted).collect();
    match entries.as_slice() {
        [] => Err(FetchError::Empty { source_uri: source.display().to_string() }),
        [archive] if archive.is_file() && is_archive(&name(archive)) => unpack(archive, destination),
        entries => entries.iter().try_for_each(|entry| {
            let link = destination.join(name(entry));
            link_one(entry, &link)
        }),
    }
}

/// Fails if the destination is below the source: it would get a link to itself, in which programs get lost.
fn check_outside(source: &Path, destination: &Path) -> Result<(), FetchError> {
    let whole = |path: &Path| path.canonicalize().map_err(FetchError::file("find", path));
    let (source, destination) = (whole(source)?, whole(destination)?);
    if destination != source && destination.starts_with(&source) {
        let why = format!("its destination `{}` is inside of it", destination.display());
        return Err(FetchError::Address { uri: source.display().to_string(), why });
    }
    Ok(())
}

fn link_one(entry: &Path, link: &Path) -> Result<(), FetchError> {
    match symlink(entry, link) {
        Ok(()) => {
            tracing::info!("Linking: {} to {}", entry.display(), link.display());
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            tracing::info!(path = %link.display(), "This path exists already and is not changed.");
            Ok(())
        }
        Err(error) => Err(FetchError::file("link", link)(error)),
    }
}

fn unpack(archive: &Path, destination: &Path) -> Result<(), FetchError> {
    tracing::info!("Unpacking: {}", archive.display());
    let target = Target::open(destination)?;
    let at = target.private_path("local-unpacked");
    let opened = || -> io::Result<(File, Stage)> {
        target.remove_private("local-unpacked")?;
        fs::create_dir(&at)?;
        Ok((File::open(archive)?, Stage::open(&at, target.free())))
    };
    let (file, mut stage) = opened().map_err(FetchError::file("unpack", archive))?;
    let name = archive.display().to_string();
    stage.unpack(file, &name, &name, &Members::default())?;
    let place = || -> io::Result<()> {
        for member in stage.finish() {
            if member.is_folder {
                target.make_folder(&member.path)?;
            } else {
                target.take(&at.join(&member.path), &member.path)?;
            }
        }
        // A local source needs no journal.
        fs::remove_dir_all(destination.join(OWN_FOLDER))
    };
    place().map_err(FetchError::file("write to", destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_linked_by_its_visible_entries_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let (source, destination) = (dir.path().join("model"), dir.path().join("mnt"));
        fs::create_dir_all(source.join("deep")).unwrap();
        fs::create_dir_all(&destination).unwrap();
        for file in ["config.json", ".hidden", "deep/weights", "odd[1]*"] {
            fs::write(source.join(file), file).unwrap();
        }
        for _ in 0..2 {
            link(&source, &destination, &Filter::default()).unwrap();
        }
        assert_eq!(fs::read_link(destination.join("deep")).unwrap(), source.join("deep"));
        assert_eq!(fs::read_to_string(destination.join("odd[1]*")).unwrap(), "odd[1]*");
        assert!(!destination.join(".hidden").exists());
        let inside = source.join("deep/mnt");
        fs::create_dir_all(&inside).unwrap();
        let error = link(&source, &inside, &Filter::default()).unwrap_err().to_string();
        assert!(error.contains("is inside of it") && fs::read_dir(&inside).unwrap().count() == 0, "{error}");
        assert!(path_of(&Address::parse("file://")).unwrap_err().to_string().contains("file://PATH"));
        let none = Filter::new(Some("*.bin"), None);
        assert!(matches!(link(&source, &destination, &none), Err(FetchError::Empty { .. })));
    }
}
