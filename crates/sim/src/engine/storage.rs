//! A folder that engines share. It contains a file for each prompt block that one of the engines has computed.

use std::{fs, path::PathBuf, sync::Arc};

use longboat_serving::{ArgsError, Flag};
use serde::Deserialize;

use crate::media::json;

use longboat_engine_model::BlockHash;

/// The shared folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storage(Arc<PathBuf>);

/// The used fields of vLLM's `--kv-transfer-config`.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    kv_connector_extra_config: ConnectorConfig,
}

/// The used fields of a connector's own configuration.
#[derive(Default, Deserialize)]
pub(crate) struct ConnectorConfig {
    shared_storage_path: Option<PathBuf>,
}

/// Returns the storage of a connector. Returns `None` if the connector has none.
pub(crate) fn configured(flag: &Flag) -> Result<Option<Storage>, ArgsError> {
    Ok(json::<Config>(flag)?.kv_connector_extra_config.storage())
}

impl ConnectorConfig {
    /// The storage in this folder, if there is one.
    pub(crate) fn storage(self) -> Option<Storage> {
        self.shared_storage_path.map(|path| Storage(Arc::new(path)))
    }
}

// === impl Storage ===

impl Storage {
    /// Returns the number of leading blocks that are in the folder.
    pub(crate) async fn prefix(&self, blocks: Arc<[BlockHash]>) -> usize {
        let folder = self.0.clone();
        // The folder may be on a network, where each look-up takes a while.
        let looking = move || blocks.iter().take_while(|hash| folder.join(name(**hash)).exists()).count();
        tokio::task::spawn_blocking(looking).await.unwrap_or_default()
    }

    /// Adds blocks to the folder.
    pub(crate) async fn keep(&self, blocks: Arc<[BlockHash]>) {
        let folder = self.0.clone();
        let writing = move || {
            fs::create_dir_all(folder.as_ref())?;
            // Only names are looked up, so the files are empty.
            blocks.iter().try_for_each(|hash| fs::write(folder.join(name(*hash)), []))
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(writing).await {
            tracing::warn!(
                %error,
                folder = %self.0.display(),
                "Cannot write blocks of the KV cache to the shared storage."
            );
        }
    }
}

/// The name of a block or of an embedding between engines.
pub(super) fn name(hash: BlockHash) -> String {
    format!("{hash:016x}")
}
