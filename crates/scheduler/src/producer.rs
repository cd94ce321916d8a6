//! Producers with state: they find data about requests for other plugins, and learn from decisions.
//!
//! A producer with state is one file with its declaration, which is a [`Producer`], and its state, a [`ProducerState`]. Plugins
//! that use it know its place in the list of producers.

use std::{any::Any, fmt};

use serde_json::Value;

use crate::{
    decision::Decision,
    endpoint::{Slot, Snapshot},
    finding::Finding,
    listing::Listing,
    request::Request,
    stopwatch::ProducerTimes,
};

/// A declared producer.
pub(crate) trait Producer: Any + Send + Sync {
    /// Creates its state, in which nothing is known.
    fn state(&self) -> Box<dyn ProducerState>;

    /// The most bytes of a prompt's text that it reads, from the start.
    fn text_limit(&self) -> usize {
        0
    }

    /// Whether it uses images, audio and videos.
    fn looks_at_media(&self) -> bool {
        false
    }

    /// Whether its work counts as that of a producer. The state of a scorer does not.
    fn is_timed(&self) -> bool {
        true
    }
}

/// The first token of a streamed response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstToken {
    /// The primary target of the request.
    pub(crate) slot: Slot,
    /// Requests that were in flight there when the request was sent.
    pub(crate) ahead: u64,
    /// The times of the decision and of the token, in milliseconds.
    pub(crate) sent: u64,
    pub(crate) now: u64,
}

/// The state of a producer.
pub(crate) trait ProducerState: Any + CopyState + fmt::Debug + Send + Sync {
    /// Finds data about a request on all candidates.
    fn find(&self, request: &Request<'_>, candidates: &[Snapshot], now: u64) -> Finding {
        let _ = (request, candidates, now);
        Finding::new(())
    }

    /// Learns from a decision. `finding` is what it has found about the request.
    fn learn(&mut self, finding: &Finding, decision: &Decision);

    /// Learns from the first token of a response.
    fn observe(&mut self, token: &FirstToken) {
        let _ = token;
    }

    /// Removes what is known of an endpoint that is gone.
    fn forget(&mut self, slot: Slot);

    /// Describes the state for people.
    fn describe(&self, endpoints: &Listing<'_>) -> Option<Value> {
        let _ = endpoints;
        None
    }
}

/// A state that can be copied.
pub(crate) trait CopyState {
    /// Returns a copy.
    fn copy(&self) -> Box<dyn ProducerState>;
}

impl<T: ProducerState + Clone> CopyState for T {
    fn copy(&self) -> Box<dyn ProducerState> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn ProducerState> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

/// A declared producer with its name.
pub(crate) struct NamedProducer {
    pub(crate) name: String,
    pub(crate) producer: Box<dyn Producer>,
    /// The times of its work, if somebody watches.
    pub(crate) times: Option<ProducerTimes>,
}

impl NamedProducer {
    /// Returns the producer, if it has this type.
    pub(crate) fn get<T: Producer>(&self) -> Option<&T> {
        (&*self.producer as &dyn Any).downcast_ref()
    }
}
