//! Models that are already on this machine. They are linked, not copied, because weights are large and are never changed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use longboat_download::{
    MODELS_VARIABLE,
    address::{Address, Scheme},
};

use crate::{
    FetchError, Settings,
    archive::{EntryKind, Stage},
    filter::Filter,
    names::{OWN_FOLDER, is_archive},
    remote::Members,
    target::{Target, if_found},
};

/// Returns the path of a model on this machine: the one that its source names, or a model with the name of a hub model in the
/// folder `LONGBOAT_MODELS`. Returns `None` if the model must be downloaded.
pub(crate) fn path_of(source: &Address, settings: &Settings) -> Result<Option<PathBuf>, FetchError> {
    match named_path(source)? {
        Some(path) => Ok(Some(path)),
        None => find_hub_model(source, settings),
    }
}

/// Finds the model of the hub `OWNER/NAME` in the folder `LONGBOAT_MODELS`: the folder `NAME`, or the only file `NAME.gguf`,
/// `NAME.QUANTISATION.gguf` or `NAME-QUANTISATION.gguf` that the patterns select.
fn find_hub_model(source: &Address, settings: &Settings) -> Result<Option<PathBuf>, FetchError> {
    let (Some(folder), Ok((repository, _))) = (settings.get(MODELS_VARIABLE), source.hub_model()) else {
        return Ok(None);
    };
    let name = repository.rsplit('/').next().unwrap_or(repository);
    // Repositories with GGUF files have this ending by convention, and their files do not.
    let name = name.strip_suffix("-GGUF").unwrap_or(name);
    let folder = Path::new(folder);
    if folder.join(name).is_dir() {
        return Ok(Some(folder.join(name)));
    }
    let entries = if_found(fs::read_dir(folder)).map_err(FetchError::file("read", folder))?;
    let Some(entries) = entries else { return Ok(None) };
    let filter = settings.filter();
    let is_it = |file: &str| {
        let rest = file.strip_suffix(".gguf").and_then(|stem| stem.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-'])) && filter.wants(file)
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let found: Vec<String> = names.filter(|file| is_it(file)).collect();
    // Of several quantisations, none is the one that was meant.
    Ok(if let [file] = found.as_slice() { Some(folder.join(file)) } else { None })
}

/// Returns the path that a source names. Returns `None` if the source is not local.
fn named_path(source: &Address) -> Result<Option<PathBuf>, FetchError> {
    let path = PathBuf::from(source.rest());
    let uri = || source.as_str().to_owned();
    match source.scheme() {
        Scheme::File if source.rest().is_empty() => Err(FetchError::address(uri(), "expected file://PATH")),
        Scheme::File if !path.exists() => Err(FetchError::NoLocalPath { uri: uri() }),
        Scheme::Absent if source.rest().starts_with("/mnt/pvc") && !path.exists() => {
            Err(FetchError::NoClaimPath { uri: uri() })
        }
        Scheme::File | Scheme::Absent => Ok(Some(path).filter(|path| path.exists())),
        _ => Ok(None),
    }
}

/// Links the visible entries of a folder, or a single file, into a folder. A single archive is unpacked.
/// Patterns select entries by their names, and members of the archive.
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
        *path == source || (!name.starts_with('.') && filter.wants(&name))
    };
    let entries: Vec<PathBuf> = entries.into_iter().filter(is_wanted).collect();
    match entries.as_slice() {
        [] => Err(FetchError::Empty { source_uri: source.display().to_string() }),
        [archive] if archive.is_file() && is_archive(&name(archive)) => unpack(archive, destination, filter),
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
        return Err(FetchError::address(source.display(), why));
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

fn unpack(archive: &Path, destination: &Path, filter: &Filter) -> Result<(), FetchError> {
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
    stage.unpack(file, &name, &name, &Members::selected_by(filter))?;
    let place = || -> io::Result<()> {
        for (path, member) in stage.finish() {
            if member.kind == EntryKind::Folder {
                target.make_folder(&path)?;
            } else {
                target.take(&at.join(&path), &path)?;
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
        let settings = Settings::default();
        assert!(
            path_of(&Address::parse("file://"), &settings).unwrap_err().to_string().contains("file://PATH")
        );
        let none = Filter::new(Some("*.bin"), None);
        assert!(matches!(link(&source, &destination, &none), Err(FetchError::Empty { .. })));
    }

    #[test]
    fn a_hub_model_is_taken_from_the_folder_of_models_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("models");
        let settings = Settings::default().with(MODELS_VARIABLE, models.to_str().unwrap());
        let found = |name: &str, settings: &Settings| {
            let found = path_of(&Address::parse(format!("hf://o/{name}")), settings).unwrap();
            found.map(|path| path.strip_prefix(&models).unwrap().to_str().unwrap().to_owned())
        };
        // A folder that does not exist has no models.
        assert_eq!(found("Small-Instruct", &settings), None);
        fs::create_dir_all(models.join("Whole")).unwrap();
        for file in ["Small-Instruct.Q4_1.gguf", "Two-Q4_0.gguf", "Two-Q8_0.gguf", "Smaller.gguf", "Text.txt"]
        {
            fs::write(models.join(file), "").unwrap();
        }
        let only = settings.with("STORAGE_ALLOW_PATTERNS", "*-Q8_0.gguf");
        for (name, settings, expected) in [
            ("Small-Instruct", &settings, Some("Small-Instruct.Q4_1.gguf")),
            ("Small-Instruct-GGUF", &settings, Some("Small-Instruct.Q4_1.gguf")),
            ("Whole", &settings, Some("Whole")),
            ("Smaller", &settings, Some("Smaller.gguf")),
            ("Text", &settings, None),
            // It would be a guess which of two files is meant.
            ("Two", &settings, None),
            ("Two", &only, Some("Two-Q8_0.gguf")),
            ("Small-Instruct", &only, None),
        ] {
            assert_eq!(found(name, settings).as_deref(), expected, "{name}");
        }
        assert_eq!(path_of(&Address::parse("hf://o/Whole"), &Settings::default()).unwrap(), None);
    }
}
