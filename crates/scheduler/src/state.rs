//! The state that requests leave behind. The caller owns it. Only commits and releases change it.

use std::{any::Any, sync::Arc};

use crate::{
    decision::Flow, endpoint::Slot, inflight::InFlight, precise::Holdings, prefixes::Prefixes,
    producer::ProducerState,
};

/// The state of a scheduler. Created by [`Scheduler::state`](crate::Scheduler::state).
#[derive(Debug, Clone)]
pub struct State {
    /// The states of the producers, in their order.
    pub(crate) producers: Vec<Box<dyn ProducerState>>,
    pub(crate) in_flight: InFlight,
}

impl State {
    /// Returns the state of a producer, if it has this type.
    pub(crate) fn producer<T: ProducerState>(&self, producer: usize) -> Option<&T> {
        (&**self.producers.get(producer)? as &dyn Any).downcast_ref()
    }

    /// Returns the states of all producers of this type.
    pub(crate) fn all<T: ProducerState>(&self) -> impl Iterator<Item = &T> {
        self.producers.iter().filter_map(|state| (&**state as &dyn Any).downcast_ref())
    }

    /// Removes all state of an endpoint that is gone, so that its slot can be given to another endpoint.
    pub fn forget(&mut self, slot: Slot) {
        for producer in &mut self.producers {
            producer.forget(slot);
        }
        self.in_flight.forget(slot);
    }

    /// The number of prompt prefixes that each prefix producer knows, over all endpoints.
    pub fn prefix_blocks(&self) -> impl Iterator<Item = usize> {
        self.all().map(Prefixes::len)
    }

    /// The indexes of the precise prefix producers. The caller keeps them up to date.
    pub fn holdings(&self) -> Vec<Arc<Holdings>> {
        let precise = self.all::<Prefixes>().filter_map(|prefixes| match prefixes {
            Prefixes::Approximate(_) | Prefixes::Burst(_) => None,
            Prefixes::Precise(holdings) => Some(Arc::clone(holdings)),
        });
        precise.collect()
    }

    /// Returns the requests in flight at an endpoint, and their tokens: of prompts that are not cached, and of
    /// output if it is estimated.
    pub fn in_flight(&self, slot: Slot) -> (u64, u64) {
        let load = self.in_flight.get(slot);
        (load.requests, load.tokens)
    }

    /// Returns the part of each flow in what is in flight at an endpoint: requests, and their tokens.
    pub fn flows_in_flight(&self, slot: Slot) -> impl Iterator<Item = (&Flow, (u64, u64))> {
        self.in_flight.flows(slot).map(|(flow, load)| (flow, (load.requests, load.tokens)))
    }
}
