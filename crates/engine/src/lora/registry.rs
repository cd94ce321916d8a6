//! The adapters that are loaded.

use std::{path::Path, sync::Arc};

use longboat_serving::Adapter as Card;
use parking_lot::Mutex;

use super::Adapter;
use crate::{LoadError, model::Config};

/// The most adapters that are loaded at once.
const MOST: usize = 256;

/// The adapters that are loaded.
pub(crate) struct Adapters {
    config: Config,
    most_rank: usize,
    /// How many keep their matrices in memory while no answer uses them.
    most_kept: usize,
    loaded: Mutex<Loaded>,
    /// The number of the next one that is read. One is read at a time.
    next: Mutex<u64>,
}

#[derive(Default)]
struct Loaded {
    entries: Vec<Entry>,
    /// Counts uses.
    clock: u64,
}

/// An adapter that requests may name.
struct Entry {
    card: Card,
    /// None while its matrices are not in memory.
    adapter: Option<Arc<Adapter>>,
    /// When it was used last.
    used: u64,
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
    /// None yet, for a model of this shape, of at most this rank. Without `most_kept` all stay in memory.
    pub(crate) fn new(config: Config, most_rank: usize, most_kept: Option<usize>) -> Self {
        let most_kept = most_kept.unwrap_or(MOST);
        Self { config, most_rank, most_kept, loaded: Mutex::default(), next: Mutex::new(1) }
    }

    /// The adapter of this name. Blocks while it is read again, where it was given up.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Arc<Adapter>>, AdapterError> {
        if let Some(adapter) = self.loaded.lock().take(name) {
            return Ok(Some(adapter));
        }
        let mut next = self.next.lock();
        // It may have been read while this one waited.
        if let Some(adapter) = self.loaded.lock().take(name) {
            return Ok(Some(adapter));
        }
        let card = self.cards().into_iter().find(|card| card.name == name);
        let Some(card) = card else { return Ok(None) };
        // Its files may have changed, so that it has a new number, and nothing cached belongs to it.
        let adapter = self.read(&card, &mut next)?;
        tracing::info!(name, path = card.path, "Read a LoRA adapter again.");
        let mut loaded = self.loaded.lock();
        // It may have been unloaded meanwhile.
        if let Some(entry) = loaded.entries.iter_mut().find(|entry| entry.card == card) {
            entry.adapter = Some(Arc::clone(&adapter));
            loaded.take(name);
            loaded.give_up(self.most_kept);
        }
        Ok(Some(adapter))
    }

    /// All of them, in the order in which they were loaded.
    pub(crate) fn cards(&self) -> Vec<Card> {
        self.loaded.lock().entries.iter().map(|entry| entry.card.clone()).collect()
    }

    /// Loads one. With `in_place` it takes the place of the one of its name; answers that use that one go on with it.
    pub(crate) fn load(&self, card: Card, in_place: bool) -> Result<(), AdapterError> {
        let mut next = self.next.lock();
        let cards = self.cards();
        let is_known = cards.iter().any(|known| known.name == card.name);
        if is_known && !in_place {
            return Err(AdapterError::Loaded(card.name));
        }
        if !is_known && cards.len() >= MOST {
            return Err(AdapterError::TooMany);
        }
        let adapter = Some(self.read(&card, &mut next)?);
        let name = card.name.clone();
        let entry = Entry { card, adapter, used: 0 };
        let mut loaded = self.loaded.lock();
        // It may have been unloaded meanwhile.
        match loaded.entries.iter_mut().find(|known| known.card.name == name) {
            Some(known) => *known = entry,
            None => loaded.entries.push(entry),
        }
        loaded.take(&name);
        loaded.give_up(self.most_kept);
        Ok(())
    }

    fn read(&self, card: &Card, next: &mut u64) -> Result<Arc<Adapter>, AdapterError> {
        let path = Path::new(&card.path);
        if !Adapter::is_in(path) {
            return Err(AdapterError::Missing { name: card.name.clone(), path: card.path.clone() });
        }
        let adapter = Adapter::load(&card.name, *next, path, &self.config, self.most_rank)?;
        *next += 1;
        Ok(Arc::new(adapter))
    }

    /// Forgets one; answers that use it go on with it. Says whether it was there.
    pub(crate) fn unload(&self, name: &str) -> bool {
        let entries = &mut self.loaded.lock().entries;
        let before = entries.len();
        entries.retain(|entry| entry.card.name != name);
        entries.len() < before
    }
}

// === impl Loaded ===

impl Loaded {
    /// Uses the adapter of this name, if it is in memory.
    fn take(&mut self, name: &str) -> Option<Arc<Adapter>> {
        let entry = self.entries.iter_mut().find(|entry| entry.card.name == name)?;
        let adapter = entry.adapter.clone()?;
        self.clock += 1;
        entry.used = self.clock;
        Some(adapter)
    }

    /// Gives up the matrices that were not used for longest, until so many adapters have theirs.
    fn give_up(&mut self, most: usize) {
        let mut kept: Vec<&mut Entry> =
            self.entries.iter_mut().filter(|entry| entry.adapter.is_some()).collect();
        kept.sort_unstable_by_key(|entry| entry.used);
        let beyond = kept.len().saturating_sub(most);
        for entry in kept.into_iter().take(beyond) {
            entry.adapter = None;
            tracing::info!(name = entry.card.name, "Gave up the memory of a LoRA adapter (--max-cpu-loras).");
        }
    }
}
