//! Finds out what exists of a model before a download, on this machine or at its source.

use std::path::PathBuf;

use longboat_download::address::Address;

use crate::{Cache, FetchError, Settings, local, source};

/// The files of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFiles {
    /// The files, by their paths below the model's folder.
    pub files: Vec<String>,
    /// Their total size in bytes. `None` if the source does not report the size of each file.
    pub bytes: Option<u64>,
}

/// Lists the files of a remote source without fetching them. With [`Settings::offline`], only the hub's own cache can answer.
pub async fn list_source(address: &Address, settings: &Settings) -> Result<SourceFiles, FetchError> {
    let source = source::start(address, settings)?;
    if settings.is_offline() && !source.is_offline() {
        return Err(FetchError::Offline { resource: source.resource().to_owned() });
    }
    let listing = source.list(&settings.filter()).await?;
    let bytes = listing.files.iter().map(|file| file.size).sum();
    Ok(SourceFiles {
        files: listing.files.into_iter().map(|file| String::from(&*file.path)).collect(),
        bytes,
    })
}

/// Returns the path of a model on this machine: the local path in the address, or a complete copy in the cache.
pub fn local_copy(address: &Address, settings: &Settings) -> Result<Option<PathBuf>, FetchError> {
    if let Some(path) = local::path_of(address)? {
        return Ok(Some(path));
    }
    let Some(cache) = Cache::of(settings) else { return Ok(None) };
    let folder = cache.place(address, &settings.filter().key());
    let found = cache.list()?.into_iter().find(|model| model.complete && model.folder == folder);
    Ok(found.map(|model| model.folder))
}
