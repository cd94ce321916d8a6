//! What there is of a model before anything is fetched: on this machine, or at its source.

use std::path::PathBuf;

use crate::{Cache, FetchError, Settings, local, source};

/// What a source offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The files, by their paths below the model's folder.
    pub files: Vec<String>,
    /// Their size together, in bytes; none where the source does not say the size of each.
    pub bytes: Option<u64>,
}

/// Asks a remote source for its files, without fetching them. With [`Settings::offline`], only the hub's own cache can answer.
pub async fn offer(uri: &str, settings: &Settings) -> Result<Offer, FetchError> {
    let source = source::start(uri, settings)?;
    if settings.is_offline() && !source.is_offline() {
        return Err(FetchError::Offline { resource: source.resource().to_owned() });
    }
    let listing = source.list(&settings.filter()).await?;
    let bytes = listing.files.iter().map(|file| file.size).sum();
    Ok(Offer { files: listing.files.into_iter().map(|file| String::from(&*file.path)).collect(), bytes })
}

/// Where a model is on this machine: the local path that the address names, or a complete copy in the cache.
pub fn on_this_machine(uri: &str, settings: &Settings) -> Result<Option<PathBuf>, FetchError> {
    if let Some(path) = local::path_of(uri)? {
        return Ok(Some(path));
    }
    let Some(cache) = Cache::of(settings) else { return Ok(None) };
    let folder = cache.place(uri, &settings.filter().key());
    let found = cache.list()?.into_iter().find(|model| model.complete && model.folder == folder);
    Ok(found.map(|model| model.folder))
}
