//! The numbers that stand for the names of tiers in an index.

use ahash::AHashMap;

/// The most tiers of an endpoint that the settings do not name. Further ones share a number.
pub(super) const MAX_OWN: usize = 16;
/// The longest name of such a tier, in bytes. Tiers with longer names share the same number.
const MAX_NAME_BYTES: usize = 64;

/// The tiers of an index. Tiers that the settings name have the same number for all endpoints. The others are numbered for each
/// endpoint by itself, so that an engine that invents names uses up only its own numbers.
#[derive(Debug, Clone)]
pub(super) struct Tiers {
    weights: Vec<(String, f64)>,
    own: AHashMap<u32, Vec<String>>,
}

// === impl Tiers ===

impl Tiers {
    pub(super) fn new(weights: Vec<(String, f64)>) -> Self {
        Self { weights, own: AHashMap::new() }
    }

    /// Returns the number of a tier of this endpoint, which may be new.
    pub(super) fn admit(&mut self, holder: u32, name: &str) -> u16 {
        let known = self.number(holder, name);
        if known == self.shared() && name.len() <= MAX_NAME_BYTES {
            let own = self.own.entry(holder).or_default();
            if own.len() < MAX_OWN {
                own.push(name.to_owned());
                return self.number(holder, name);
            }
        }
        known
    }

    /// Returns the number of a tier of this endpoint. Unknown tiers have the number that further tiers share.
    pub(super) fn number(&self, holder: u32, name: &str) -> u16 {
        let configured = self.weights.iter().position(|(known, _)| known == name);
        let own = || {
            let place = self.own.get(&holder)?.iter().position(|known| known == name)?;
            Some(self.weights.len() + place)
        };
        configured.or_else(own).map_or(self.shared(), |number| u16::try_from(number).unwrap_or(u16::MAX))
    }

    /// All numbers that blocks of this endpoint may have.
    pub(super) fn numbers(&self, holder: u32) -> impl Iterator<Item = u16> + use<> {
        let own = self.own.get(&holder).map_or(0, Vec::len);
        let last = u16::try_from(self.weights.len() + own).unwrap_or(u16::MAX);
        (0..last).chain([self.shared()])
    }

    /// The weight of the blocks on a tier.
    pub(super) fn weight(&self, number: u16) -> f64 {
        self.weights.get(usize::from(number)).map_or(1.0, |(_, weight)| *weight)
    }

    /// The weight of the blocks on a tier of this name, whichever endpoint has it.
    pub(super) fn named_weight(&self, name: &str) -> f64 {
        self.weights.iter().find(|(known, _)| known == name).map_or(1.0, |(_, weight)| *weight)
    }

    /// Forgets the tiers of an endpoint that has no blocks.
    pub(super) fn forget(&mut self, holder: u32) {
        self.own.remove(&holder);
    }

    fn shared(&self) -> u16 {
        u16::try_from(self.weights.len() + MAX_OWN).unwrap_or(u16::MAX)
    }
}
