//! Finds out what exists of a model before a download, on this machine or at its source.

use std::{fs::File, io::Read as _, path::PathBuf};

use longboat_download::address::Address;

use crate::{Cache, FetchError, Settings, local, remote::ByteRange, source};

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
        return Err(FetchError::Offline { source_uri: address.to_string() });
    }
    let listing = source.list(&settings.filter()).await?;
    let bytes = listing.files.iter().map(|file| file.size).sum();
    Ok(SourceFiles {
        files: listing.files.into_iter().map(|file| String::from(&*file.path)).collect(),
        bytes,
    })
}

/// Reads the first `limit` bytes of a file of a source, fewer if the file is shorter. Formats such as GGUF describe a model
/// there, long before the whole file has arrived.
pub async fn read_head(
    address: &Address,
    file: &str,
    limit: usize,
    settings: &Settings,
) -> Result<Vec<u8>, FetchError> {
    let source = source::start(address, settings)?;
    let listing = source.list(&settings.filter()).await?;
    let Some(file) = listing.files.into_iter().find(|listed| *listed.path == *file) else {
        return Err(FetchError::Empty { source_uri: address.to_string() });
    };
    let mut bytes = Vec::new();
    if let Some(path) = source.local_copy(&file) {
        let read = File::open(&path).and_then(|file| file.take(limit as u64).read_to_end(&mut bytes));
        read.map_err(FetchError::file("read", &path))?;
        return Ok(bytes);
    }
    let range = ByteRange { start: 0, end: Some(limit as u64), identity: None };
    let read = async {
        let mut answer = source.open(&file, &range).await?.answer;
        while bytes.len() < limit
            && let Some(chunk) = answer.chunk().await?
        {
            // A server may ignore the range, so the rest of the file is left unread.
            bytes.extend_from_slice(&chunk[..chunk.len().min(limit - bytes.len())]);
        }
        Ok(bytes)
    };
    read.await.map_err(|failure| source.error(failure))
}

/// Returns the path of a model on this machine: the local path in the address, a model of that name in the folder
/// `LONGBOAT_MODELS`, or a complete copy in the cache.
pub fn local_copy(address: &Address, settings: &Settings) -> Result<Option<PathBuf>, FetchError> {
    if let Some(path) = local::path_of(address, settings)? {
        return Ok(Some(path));
    }
    let Some(cache) = Cache::of(settings) else { return Ok(None) };
    let folder = cache.place(address, &settings.filter().key());
    let found = cache.list()?.into_iter().find(|model| model.complete && model.folder == folder);
    Ok(found.map(|model| model.folder))
}
