//! A folder that engines share: each block of a prompt that one of them has computed is a file there.

use std::{fs, path::PathBuf, sync::Arc};

use longboat_serving::{ArgsError, Flag};
use serde::Deserialize;

use super::cache::BlockHash;

/// The folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storage(Arc<PathBuf>);

/// vLLM's `--kv-transfer-config`, as far as it says something here.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    kv_connector_extra_config: Extra,
}

#[derive(Default, Deserialize)]
struct Extra {
    shared_storage_path: Option<PathBuf>,
}

/// The storage of a connector that has one.
pub(crate) fn configured(flag: &Flag) -> Result<Option<Storage>, ArgsError> {
    let config: Config =
        serde_json::from_str(flag.text()?).map_err(|error| flag.invalid(error.to_string()))?;
    Ok(config.kv_connector_extra_config.shared_storage_path.map(Storage::new))
}

// === impl Storage ===

impl Storage {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(Arc::new(path))
    }

    /// How many of these blocks are there, up to the first that is not.
    pub(crate) async fn prefix(&self, blocks: Vec<BlockHash>) -> usize {
        let folder = self.0.clone();
        let looking = move || blocks.iter().take_while(|hash| folder.join(name(**hash)).exists()).count();
        tokio::task::spawn_blocking(looking).await.unwrap_or_default()
    }

    /// Keeps blocks for all who share the folder.
    pub(crate) async fn keep(&self, blocks: Vec<BlockHash>) {
        let folder = self.0.clone();
        let writing = move || {
            fs::create_dir_all(folder.as_ref())?;
            blocks.iter().try_for_each(|hash| fs::write(folder.join(name(*hash)), []))
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(writing).await {
            tracing::warn!(%error, folder = %self.0.display(), "Cannot keep blocks of the cache.");
        }
    }
}

fn name(hash: BlockHash) -> String {
    format!("{hash:016x}")
}
