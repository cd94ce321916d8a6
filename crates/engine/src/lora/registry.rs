//! The adapters that are loaded.

use std::{path::Path, sync::Arc};

use longboat_serving::Adapter as Card;
use parking_lot::{Mutex, RwLock};

use super::Adapter;
use crate::{LoadError, model::Config};

/// The most adapters that are loaded at once.
const MOST: usize = 256;

/// The adapters that are loaded.
pub(crate) struct Adapters {
    config: Config,
    most_rank: usize,
    loaded: RwLock<Vec<(Card, Arc<Adapter>)>>,
    /// The number of the next one. One is loaded at a time.
    next: Mutex<u64>,
}

/// An adapter cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterError {
    #[error(
        "The lora adapter '{0}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True."
    )]
    Loaded(String),
    #[error("Loading lora {name} failed: No adapter found for {path}")]
    Missing { name: String, path: String },
    #[error("{MOST} LoRA adapters are loaded, which is the most: unload one first.")]
    TooMany,
    #[error(transparent)]
    Unusable(#[from] LoadError),
}

// === impl Adapters ===

impl Adapters {
    /// None yet, for a model of this shape, of at most this rank.
    pub(crate) fn new(config: Config, most_rank: usize) -> Self {
        Self { config, most_rank, loaded: RwLock::default(), next: Mutex::new(1) }
    }

    /// The adapter of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Adapter>> {
        let loaded = self.loaded.read();
        loaded.iter().find(|(card, _)| card.name == name).map(|(_, adapter)| Arc::clone(adapter))
    }

    /// All of them, in the order in which they were loaded.
    pub(crate) fn cards(&self) -> Vec<Card> {
        self.loaded.read().iter().map(|(card, _)| card.clone()).collect()
    }

    /// Loads one. With `in_place` it takes the place of the one of its name; answers that use that one go on with it.
    pub(crate) fn load(&self, card: Card, in_place: bool) -> Result<(), AdapterError> {
        let mut next = self.next.lock();
        let place = self.loaded.read().iter().position(|(known, _)| known.name == card.name);
        if place.is_some() && !in_place {
            return Err(AdapterError::Loaded(card.name));
        }
        if place.is_none() && self.loaded.read().len() >= MOST {
            return Err(AdapterError::TooMany);
        }
        let path = Path::new(&card.path);
        if !Adapter::is_in(path) {
            return Err(AdapterError::Missing { name: card.name, path: card.path });
        }
        let adapter = Arc::new(Adapter::load(&card.name, *next, path, &self.config, self.most_rank)?);
        *next += 1;
        let mut loaded = self.loaded.write();
        // It may have been unloaded meanwhile.
        match loaded.iter_mut().find(|(known, _)| known.name == card.name) {
            Some(known) => *known = (card, adapter),
            None => loaded.push((card, adapter)),
        }
        Ok(())
    }

    /// Forgets one; answers that use it go on with it. Says whether it was there.
    pub(crate) fn unload(&self, name: &str) -> bool {
        let mut loaded = self.loaded.write();
        let before = loaded.len();
        loaded.retain(|(card, _)| card.name != name);
        loaded.len() < before
    }
}
