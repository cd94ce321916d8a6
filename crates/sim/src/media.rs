//! The flags of a multimodal model.

use std::{collections::BTreeMap, time::Duration};

use longboat_serving::{ArgsError, Flag, Media, Modality};
use serde::Deserialize;

use crate::engine::storage::{ConnectorConfig, Storage};

/// The most items in a prompt, if `--limit-mm-per-prompt` sets no limit. The number is vLLM's.
const MAX_ITEMS: usize = 999;

/// The settings for images, sounds and videos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaArgs {
    modalities: Vec<Modality>,
    limits: BTreeMap<Modality, usize>,
    /// How many tokens of a prompt an item takes.
    pub(crate) tokens: usize,
    /// The time for encoding one item.
    pub(crate) time: Duration,
    /// The transfer of embeddings between engines. `None` if this is not configured.
    pub(crate) transfer: Option<Transfer>,
}

/// The role of an engine if encoders are separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Encodes for others, and computes no prompts.
    Producer,
    /// Uses embeddings that others have encoded.
    Consumer,
}

/// The used fields of vLLM's `--ec-transfer-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) side: Side,
    /// The folder of a connector that has one. Without a folder, responses and requests contain the location of embeddings.
    pub(crate) storage: Option<Storage>,
}

// === impl MediaArgs ===

impl Default for MediaArgs {
    fn default() -> Self {
        Self {
            modalities: Vec::new(),
            limits: BTreeMap::new(),
            tokens: 64,
            time: Duration::ZERO,
            transfer: None,
        }
    }
}

impl MediaArgs {
    /// Returns the media that the model accepts. Returns `None` if the model is not multimodal.
    pub(crate) fn media(&self) -> Option<Media> {
        let limit = |kind: &Modality| (*kind, self.limits.get(kind).copied().unwrap_or(MAX_ITEMS));
        let limits: BTreeMap<_, _> = self.modalities.iter().map(limit).collect();
        (!limits.is_empty()).then_some(Media { limits, tokens: self.tokens })
    }

    /// Returns the engine's role, if encoders are separate.
    pub(crate) fn side(&self) -> Option<Side> {
        self.transfer.as_ref().map(|transfer| transfer.side)
    }

    pub(crate) fn set_modalities(&mut self, flag: &Flag) -> Result<(), ArgsError> {
        self.modalities =
            flag.names().iter().map(|name| modality(flag, name)).collect::<Result<_, ArgsError>>()?;
        Ok(())
    }

    /// Reads `{"image": 2, "video": {"count": 1}}`.
    pub(crate) fn set_limits(&mut self, flag: &Flag) -> Result<(), ArgsError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Limit {
            Number(usize),
            Object { count: usize },
        }
        let limits: BTreeMap<String, Limit> = json(flag)?;
        for (name, limit) in limits {
            let (Limit::Number(count) | Limit::Object { count }) = limit;
            self.limits.insert(modality(flag, &name)?, count);
        }
        Ok(())
    }

    pub(crate) fn set_transfer(&mut self, flag: &Flag) -> Result<(), ArgsError> {
        #[derive(Deserialize)]
        struct Config {
            ec_role: String,
            #[serde(default)]
            ec_connector_extra_config: ConnectorConfig,
        }
        let Config { ec_role, ec_connector_extra_config } = json(flag)?;
        let side = match ec_role.as_str() {
            "ec_producer" => Side::Producer,
            "ec_consumer" => Side::Consumer,
            other => {
                let message = format!("unknown ec_role `{other}`; expected ec_producer or ec_consumer");
                return Err(flag.invalid(message));
            }
        };
        self.transfer = Some(Transfer { side, storage: ec_connector_extra_config.storage() });
        Ok(())
    }
}

pub(crate) fn json<T: for<'de> Deserialize<'de>>(flag: &Flag) -> Result<T, ArgsError> {
    serde_json::from_str(flag.text()?).map_err(|error| flag.invalid(error.to_string()))
}

fn modality(flag: &Flag, name: &str) -> Result<Modality, ArgsError> {
    let found = Modality::ALL.into_iter().find(|modality| modality.name() == name);
    found.ok_or_else(|| flag.invalid(format!("unknown modality `{name}`; expected image, audio or video")))
}
