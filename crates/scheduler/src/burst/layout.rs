//! Assigns the requests of a burst to endpoints.

use std::cmp::Reverse;

use ahash::AHashMap;

use super::settings::{Balance, BurstSettings};
use crate::endpoint::{Slot, Snapshot};

/// Requests that are placed together: all requests with the same prompt, or a single request that shares the start of its
/// prompt with others.
struct Unit<'a> {
    blocks: &'a [u64],
    requests: Vec<usize>,
}

/// Returns an endpoint for each request of a unit, and `None` for the other requests. Requests without blocks share nothing.
pub(super) fn place(
    settings: &BurstSettings,
    candidates: &[Snapshot],
    requests: &[Vec<u64>],
) -> Vec<Option<Slot>> {
    let mut placed = vec![None; requests.len()];
    let units = units(requests, settings.shared_blocks);
    if candidates.is_empty() || units.is_empty() {
        return placed;
    }
    let mut layout = Layout::new(settings, candidates, &units);
    for unit in &units {
        layout.add(unit, &mut placed);
    }
    placed
}

/// Returns the units in the order in which they are placed. Units of several requests come first. Among single requests,
/// longer prompts come first, so that shorter prompts find the blocks that they share with longer ones.
fn units(requests: &[Vec<u64>], shared_blocks: usize) -> Vec<Unit<'_>> {
    let mut units: Vec<Unit<'_>> = Vec::new();
    let mut known: AHashMap<&[u64], usize> = AHashMap::new();
    for (number, blocks) in requests.iter().enumerate().filter(|(_, blocks)| !blocks.is_empty()) {
        let unit = *known.entry(blocks).or_insert_with(|| {
            units.push(Unit { blocks, requests: Vec::new() });
            units.len() - 1
        });
        units[unit].requests.push(number);
    }
    let start = |blocks: &'_ [u64]| -> Option<Vec<u64>> {
        (shared_blocks > 0).then(|| blocks.get(..shared_blocks).map(<[u64]>::to_vec)).flatten()
    };
    let mut starts: AHashMap<Vec<u64>, usize> = AHashMap::new();
    for unit in &units {
        if let Some(start) = start(unit.blocks) {
            *starts.entry(start).or_default() += unit.requests.len();
        }
    }
    units.retain(|unit| {
        unit.requests.len() > 1
            || start(unit.blocks).and_then(|start| starts.get(&start)).is_some_and(|sharing| *sharing > 1)
    });
    units.sort_by_key(|unit| (unit.requests.len() == 1, Reverse(unit.blocks.len())));
    units
}

/// The placements so far. Endpoints are in the order of preference among equals: endpoints with fewer running requests come
/// first.
struct Layout<'a> {
    settings: &'a BurstSettings,
    endpoints: Vec<Slot>,
    /// The load that each endpoint has received, in requests or in blocks.
    load: Vec<usize>,
    /// The load up to which an endpoint is chosen for the blocks that it holds.
    fair_share: usize,
    /// The endpoints that hold each block.
    holders: AHashMap<u64, Vec<usize>>,
}

impl<'a> Layout<'a> {
    fn new(settings: &'a BurstSettings, candidates: &[Snapshot], units: &[Unit<'_>]) -> Self {
        let mut order: Vec<_> = candidates
            .iter()
            .map(|candidate| {
                (candidate.metrics.running, candidate.endpoint.full_name(), candidate.endpoint.slot)
            })
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        let size = |unit: &Unit<'_>| match settings.balance {
            Balance::Requests => unit.requests.len(),
            Balance::Blocks => unit.blocks.len(),
        };
        let total: usize = units.iter().map(size).sum();
        Self {
            settings,
            load: vec![0; order.len()],
            fair_share: total.div_ceil(order.len()),
            endpoints: order.into_iter().map(|(.., slot)| slot).collect(),
            holders: AHashMap::new(),
        }
    }

    fn add(&mut self, unit: &Unit<'_>, placed: &mut [Option<Slot>]) {
        let held = self.held(unit.blocks);
        let mut own = vec![0; self.endpoints.len()];
        let mut left = &unit.requests[..];
        while !left.is_empty() {
            // Only the first endpoint of a unit is chosen for the blocks that it holds. Further endpoints are needed because
            // the first has no room left.
            let near = left.len() == unit.requests.len() && self.settings.shared_blocks > 0;
            let target = self.choose(&own, near.then_some(&held));
            // If all endpoints are full, requests are placed one by one.
            let room = self.settings.per_endpoint.saturating_sub(own[target]).max(1);
            let (now, later) = left.split_at(room.min(left.len()));
            for &number in now {
                placed[number] = Some(self.endpoints[target]);
            }
            self.load[target] += match self.settings.balance {
                Balance::Requests => now.len(),
                // Each endpoint computes a prompt once.
                Balance::Blocks if own[target] == 0 => unit.blocks.len() - held[target],
                Balance::Blocks => 0,
            };
            own[target] += now.len();
            left = later;
        }
        if self.uses_cached_blocks() {
            let targets: Vec<usize> = (0..own.len()).filter(|&endpoint| own[endpoint] > 0).collect();
            for &block in unit.blocks {
                let holders = self.holders.entry(block).or_default();
                holders.extend(targets.iter().filter(|target| !holders.contains(target)).collect::<Vec<_>>());
            }
        }
    }

    /// Whether the placement depends on the blocks that endpoints hold.
    fn uses_cached_blocks(&self) -> bool {
        self.settings.shared_blocks > 0 || self.settings.balance == Balance::Blocks
    }

    /// Returns the number of leading blocks that each endpoint holds.
    fn held(&self, blocks: &[u64]) -> Vec<usize> {
        let mut held = vec![0; self.endpoints.len()];
        let mut holding: Vec<usize> = (0..held.len()).collect();
        for block in blocks {
            let Some(holders) = self.holders.get(block) else { break };
            holding.retain(|endpoint| holders.contains(endpoint));
            for &endpoint in &holding {
                held[endpoint] += 1;
            }
        }
        held
    }

    /// Returns the endpoint with the most leading blocks, if these are enough blocks and the endpoint is below its fair
    /// share. Otherwise returns the endpoint with the least load.
    fn choose(&self, own: &[usize], held: Option<&Vec<usize>>) -> usize {
        let all = 0..self.endpoints.len();
        let has_room = |endpoint: &usize| own[*endpoint] < self.settings.per_endpoint;
        let load = |endpoint: &usize| self.load[*endpoint];
        let near = held.and_then(|held| {
            let enough = |endpoint: &usize| {
                load(endpoint) < self.fair_share && held[*endpoint] >= self.settings.shared_blocks
            };
            let fits = all.clone().filter(has_room).filter(enough);
            fits.min_by_key(|endpoint| (Reverse(held[*endpoint]), load(endpoint)))
        });
        near.or_else(|| all.clone().filter(has_room).min_by_key(load))
            .or_else(|| all.clone().min_by_key(load))
            .unwrap_or_default()
    }
}
