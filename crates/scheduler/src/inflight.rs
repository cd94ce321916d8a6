//! Requests and tokens in flight per endpoint.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    decision::{Decision, Flow},
    endpoint::Slot,
    producer::FirstToken,
};

/// The counts of each endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    by_slot: Vec<EndpointLoad>,
}

#[derive(Debug, Clone, Default)]
struct EndpointLoad {
    load: Load,
    /// The part of each flow in the load. A flow without load has no entry, so the requests in flight limit the entries.
    flows: BTreeMap<Arc<Flow>, Load>,
    /// The number of requests per requested time per token. The keys are the bits of positive floats, which sort like the
    /// numbers.
    tpots: BTreeMap<u64, u32>,
    /// Counts the owners of the slot. A reservation for an earlier owner must not reduce the counts of the present owner.
    owner: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
}

/// The load of a decision at an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetLoad {
    pub(crate) slot: Slot,
    /// The owner of the slot when the request was scheduled.
    pub(crate) owner: u32,
    /// Whether the endpoint only prefills.
    pub(crate) prefill: bool,
    /// The tokens of the prompt that are not cached, and those of the output if they are estimated.
    pub(crate) tokens: u64,
}

/// The load of a committed decision. Release it with [`State::release`](crate::State::release). A part is already released
/// when the response begins. Reservations are not looked up by `x-request-id`, because clients can repeat ids.
#[derive(Debug, Default)]
#[must_use = "what is reserved must be released"]
pub struct Reservation {
    held: Vec<LoadShare>,
    /// The flow of the request. `None` if it is not counted by flow.
    flow: Option<Arc<Flow>>,
    /// Whether the tokens count until the response ends.
    holds_tokens: bool,
    /// The place of the primary target in `held`.
    primary: usize,
    /// The time of the decision.
    sent: u64,
    /// The bits of the requested time per token, which counts at the primary target, if there is one.
    tpot: Option<u64>,
}

#[derive(Debug)]
struct LoadShare {
    slot: Slot,
    owner: u32,
    prefill: bool,
    requests: u64,
    tokens: u64,
    /// Requests that were in flight at the endpoint when this one was sent.
    ahead: u64,
}

impl Load {
    fn add(&mut self, tokens: u64) {
        self.requests += 1;
        self.tokens += tokens;
    }

    fn subtract(&mut self, other: Self) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.tokens = self.tokens.saturating_sub(other.tokens);
    }
}

impl InFlight {
    pub(crate) fn get(&self, slot: Slot) -> Load {
        self.by_slot.get(slot.0 as usize).map(|counted| counted.load).unwrap_or_default()
    }

    /// Returns the part of each flow in an endpoint's load.
    pub(crate) fn flows(&self, slot: Slot) -> impl Iterator<Item = (&Flow, Load)> {
        let flows = self.by_slot.get(slot.0 as usize).map(|counted| &counted.flows);
        flows.into_iter().flatten().map(|(flow, load)| (&**flow, *load))
    }

    /// Returns the shortest requested time per token of the requests in flight, in milliseconds.
    pub(crate) fn strictest_tpot(&self, slot: Slot) -> Option<f64> {
        let (bits, _) = self.by_slot.get(slot.0 as usize)?.tpots.first_key_value()?;
        Some(f64::from_bits(*bits))
    }

    /// Returns the present owner of a slot.
    pub(crate) fn owner(&self, slot: Slot) -> u32 {
        self.by_slot.get(slot.0 as usize).map_or(0, |counted| counted.owner)
    }

    /// Adds one request per target.
    pub(crate) fn reserve(&mut self, decision: &Decision) -> Reservation {
        let Decision { reserve: targets, primary, now: sent, tpot_ms: tpot, flow, holds_tokens, .. } =
            decision;
        let holds_tokens = *holds_tokens;
        let (primary, sent, tpot, flow) = (*primary, *sent, *tpot, flow.clone());
        let mut held = Vec::new();
        for &TargetLoad { slot, prefill, tokens, .. } in targets {
            let index = slot.0 as usize;
            if self.by_slot.len() <= index {
                self.by_slot.resize(index + 1, EndpointLoad::default());
            }
            let counted = &mut self.by_slot[index];
            let ahead = counted.load.requests;
            counted.load.add(tokens);
            if let Some(flow) = &flow {
                counted.flows.entry(Arc::clone(flow)).or_default().add(tokens);
            }
            held.push(LoadShare { slot, owner: counted.owner, prefill, requests: 1, tokens, ahead });
        }
        let tpot = (tpot > 0.0).then(|| tpot.to_bits());
        if let Some(bits) = tpot
            && let Some(counted) = held.get(primary).and_then(|share| self.counted(share))
        {
            *counted.tpots.entry(bits).or_default() += 1;
        }
        Reservation { held, flow, holds_tokens, primary, sent, tpot }
    }

    /// Returns what is known of the first token that comes now. Returns `None` if the endpoint is gone.
    pub(crate) fn first_token(&self, reservation: &Reservation, now: u64) -> Option<FirstToken> {
        let share = reservation.held.get(reservation.primary)?;
        let counted = self.by_slot.get(share.slot.0 as usize)?;
        let token = FirstToken { slot: share.slot, ahead: share.ahead, sent: reservation.sent, now };
        (counted.owner == share.owner).then_some(token)
    }

    /// Records that the response has begun, so prefill is over on all targets.
    pub(crate) fn first_chunk(&mut self, reservation: &mut Reservation) {
        let Reservation { held, flow, holds_tokens, .. } = reservation;
        for held in held {
            // The prefiller is done with the request. The decoder keeps it, but has no prompt left to compute.
            let requests = if held.prefill { std::mem::take(&mut held.requests) } else { 0 };
            let ends = held.prefill || !*holds_tokens;
            let tokens = if ends { std::mem::take(&mut held.tokens) } else { 0 };
            self.subtract_load(held, flow.as_ref(), Load { requests, tokens });
        }
    }

    pub(crate) fn release(&mut self, reservation: Reservation) {
        let Reservation { held, flow, primary, tpot, .. } = reservation;
        if let Some(bits) = tpot
            && let Some(counted) = held.get(primary).and_then(|share| self.counted(share))
            && let Some(count) = counted.tpots.get_mut(&bits)
        {
            *count -= 1;
            if *count == 0 {
                counted.tpots.remove(&bits);
            }
        }
        for held in held {
            let load = Load { requests: held.requests, tokens: held.tokens };
            self.subtract_load(&held, flow.as_ref(), load);
        }
    }

    /// The counts that contain this share. `None` if the slot has another owner by now.
    fn counted(&mut self, share: &LoadShare) -> Option<&mut EndpointLoad> {
        self.by_slot.get_mut(share.slot.0 as usize).filter(|counted| counted.owner == share.owner)
    }

    fn subtract_load(&mut self, held: &LoadShare, flow: Option<&Arc<Flow>>, load: Load) {
        if let Some(counted) = self.counted(held) {
            counted.load.subtract(load);
            if let Some(flow) = flow
                && let Some(part) = counted.flows.get_mut(flow)
            {
                part.subtract(load);
                if *part == Load::default() {
                    counted.flows.remove(flow);
                }
            }
        }
    }

    pub(crate) fn forget(&mut self, slot: Slot) {
        let index = slot.0 as usize;
        if self.by_slot.len() <= index {
            self.by_slot.resize(index + 1, EndpointLoad::default());
        }
        // The slot may get another endpoint, for which the decisions and reservations of this one must not count.
        let owner = self.by_slot[index].owner.wrapping_add(1);
        self.by_slot[index] = EndpointLoad { owner, ..EndpointLoad::default() };
    }
}
