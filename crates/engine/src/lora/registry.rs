//! The loaded adapters.

use std::{path::Path, sync::Arc};

use longboat_serving::Adapter as Card;
use parking_lot::Mutex;

use super::adapter::Adapter;
use crate::{LoadError, model::Config};

/// The most adapters that are loaded at once.
const MAX_LOADED_ADAPTERS: usize = 256;

/// The loaded adapters.
pub(crate) struct Adapters {
    config: Config,
    max_rank: usize,
    /// The most adapters whose matrices stay in memory while no request uses them.
    max_in_memory: usize,
    loaded: Mutex<AdapterSlots>,
    /// The number of the next adapter. The lock also makes sure that only one adapter is read at a time.
    next: Mutex<u64>,
}

#[derive(Default)]
struct AdapterSlots {
    entries: Vec<Entry>,
    /// A counter that orders uses.
    clock: u64,
}

/// An adapter that requests may name.
struct Entry {
    card: Card,
    /// `None` while the matrices are not in memory.
    adapter: Option<Arc<Adapter>>,
    /// The value of the counter at the last use.
    last_use: u64,
}

/// Why an adapter cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterError {
    #[error(
        "The lora adapter '{0}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True."
    )]
    Loaded(String),
    #[error("Loading lora {name} failed: No adapter found for {path}")]
    Missing { name: String, path: String },
    #[error("{MAX_LOADED_ADAPTERS} LoRA adapters are loaded, which is the maximum: unload one first.")]
    TooMany,
    #[error(transparent)]
    Unusable(#[from] LoadError),
}

// === impl AdapterError ===

impl AdapterError {
    /// Returns the error of an engine that loads the adapter when it starts.
    pub(crate) fn into_load_error(self, name: &str) -> LoadError {
        match self {
            Self::Unusable(LoadError::Read { path, source }) => LoadError::Read { path, source },
            error => LoadError::Adapter { name: name.to_owned(), reason: error.to_string() },
        }
    }
}

// === impl Adapters ===

impl Adapters {
    /// Creates an empty registry for a model of this shape. Without `max_in_memory`, all adapters stay in memory.
    pub(crate) fn new(config: Config, max_rank: usize, max_in_memory: Option<usize>) -> Self {
        let max_in_memory = max_in_memory.unwrap_or(MAX_LOADED_ADAPTERS);
        Self { config, max_rank, max_in_memory, loaded: Mutex::default(), next: Mutex::new(1) }
    }

    /// Returns the adapter with this name. If its memory was released, this blocks while the adapter is read again.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Arc<Adapter>>, AdapterError> {
        if let Some(adapter) = self.loaded.lock().get(name) {
            return Ok(Some(adapter));
        }
        // `loaded` is not locked while files are read, so that requests for adapters in memory go on.
        let mut next = self.next.lock();
        // Another caller may have read the adapter while this one waited for the lock.
        if let Some(adapter) = self.loaded.lock().get(name) {
            return Ok(Some(adapter));
        }
        let card = self.model_cards().into_iter().find(|card| card.name == name);
        let Some(card) = card else { return Ok(None) };
        // The files may have changed. So the adapter gets a new number, and blocks that were cached before are not used with
        // it.
        let adapter = self.read(&card, &mut next)?;
        tracing::info!(name, path = card.path, "Reloaded a LoRA adapter from disk.");
        let mut loaded = self.loaded.lock();
        // The adapter may have been unloaded in the meantime.
        if let Some(entry) = loaded.entries.iter_mut().find(|entry| entry.card == card) {
            entry.adapter = Some(Arc::clone(&adapter));
            loaded.get(name);
            loaded.evict(self.max_in_memory);
        }
        Ok(Some(adapter))
    }

    /// Returns all adapters in the order in which they were loaded.
    pub(crate) fn model_cards(&self) -> Vec<Card> {
        self.loaded.lock().entries.iter().map(|entry| entry.card.clone()).collect()
    }

    /// Loads an adapter. With `in_place`, it replaces the adapter of the same name. Running answers keep the old one.
    pub(crate) fn load(&self, card: Card, in_place: bool) -> Result<(), AdapterError> {
        let mut next = self.next.lock();
        let cards = self.model_cards();
        let is_known = cards.iter().any(|known| known.name == card.name);
        if is_known && !in_place {
            return Err(AdapterError::Loaded(card.name));
        }
        if !is_known && cards.len() >= MAX_LOADED_ADAPTERS {
            return Err(AdapterError::TooMany);
        }
        let adapter = Some(self.read(&card, &mut next)?);
        let name = card.name.clone();
        let entry = Entry { card, adapter, last_use: 0 };
        let mut loaded = self.loaded.lock();
        // The adapter may have been unloaded in the meantime.
        match loaded.entries.iter_mut().find(|known| known.card.name == name) {
            Some(known) => *known = entry,
            None => loaded.entries.push(entry),
        }
        loaded.get(&name);
        loaded.evict(self.max_in_memory);
        Ok(())
    }

    fn read(&self, card: &Card, next: &mut u64) -> Result<Arc<Adapter>, AdapterError> {
        let path = Path::new(&card.path);
        if !Adapter::is_in(path) {
            return Err(AdapterError::Missing { name: card.name.clone(), path: card.path.clone() });
        }
        let adapter = Adapter::load(&card.name, *next, path, &self.config, self.max_rank)?;
        *next += 1;
        Ok(Arc::new(adapter))
    }

    /// Unloads an adapter. Running answers keep it. Returns whether it was loaded.
    pub(crate) fn unload(&self, name: &str) -> bool {
        let entries = &mut self.loaded.lock().entries;
        let before = entries.len();
        entries.retain(|entry| entry.card.name != name);
        entries.len() < before
    }
}

// === impl AdapterSlots ===

impl AdapterSlots {
    /// Returns the adapter with this name if it is in memory, and records the use.
    fn get(&mut self, name: &str) -> Option<Arc<Adapter>> {
        let entry = self.entries.iter_mut().find(|entry| entry.card.name == name)?;
        let adapter = entry.adapter.clone()?;
        self.clock += 1;
        entry.last_use = self.clock;
        Some(adapter)
    }

    /// Releases the memory of the least recently used adapters, until at most `max` adapters are in memory.
    fn evict(&mut self, max: usize) {
        let mut in_memory: Vec<&mut Entry> =
            self.entries.iter_mut().filter(|entry| entry.adapter.is_some()).collect();
        in_memory.sort_unstable_by_key(|entry| entry.last_use);
        let excess = in_memory.len().saturating_sub(max);
        for entry in in_memory.into_iter().take(excess) {
            entry.adapter = None;
            tracing::info!(name = entry.card.name, "Removed a LoRA adapter from memory (--max-cpu-loras).");
        }
    }
}
