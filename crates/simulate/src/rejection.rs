//! Requests without an answer, and why.

use serde::Serialize;

/// Requests without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Rejections {
    /// The picker's queue was full, or the request waited too long in it, or could be dropped and the pool was full.
    pub picker: u64,
    /// No endpoint could take the request.
    pub no_endpoint: u64,
    /// The engine's queue was full.
    pub engine_queue: u64,
    /// The request needs more KV cache than an engine has.
    pub too_long: u64,
    /// The endpoint failed.
    pub lost: u64,
    /// No pool serves the model.
    pub unknown_model: u64,
}

/// Why a request gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The pool is saturated, and the request may be dropped.
    Saturated,
    /// The picker's queue is full.
    QueueFull,
    /// The request has waited too long in the picker's queue.
    Expired,
    /// A plugin of the picker does not admit the request.
    NotAdmitted,
    NoEndpoint,
    EngineQueue,
    TooLong,
    Lost,
}

// === impl Rejections ===

impl Rejections {
    /// The number for each reason, with its name and what it says about the pool.
    pub(crate) fn by_reason(self) -> [(u64, &'static str, &'static str); 6] {
        let Self { picker, no_endpoint, engine_queue, too_long, lost, unknown_model } = self;
        [
            (engine_queue, "engine queue full", "engines refuse requests, because their queues are full"),
            (lost, "lost", "endpoints fail"),
            (no_endpoint, "no endpoint", "there are no endpoints that could take the requests"),
            (picker, "picker", "the picker drops requests, because the pool is saturated"),
            (
                too_long,
                "too long",
                "requests are longer than the model takes, or than the KV cache of an engine; further replicas do not help",
            ),
            (unknown_model, "unknown model", "requests name models that no pool serves"),
        ]
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.picker += other.picker;
        self.no_endpoint += other.no_endpoint;
        self.engine_queue += other.engine_queue;
        self.too_long += other.too_long;
        self.lost += other.lost;
        self.unknown_model += other.unknown_model;
    }

    pub(crate) fn add(&mut self, refusal: Refusal) {
        let count = match refusal {
            Refusal::Saturated | Refusal::QueueFull | Refusal::Expired | Refusal::NotAdmitted => {
                &mut self.picker
            }
            Refusal::NoEndpoint => &mut self.no_endpoint,
            Refusal::EngineQueue => &mut self.engine_queue,
            Refusal::TooLong => &mut self.too_long,
            Refusal::Lost => &mut self.lost,
        };
        *count += 1;
    }
}

// === impl Refusal ===

impl Refusal {
    /// The reason in words.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Saturated => "the pool is saturated",
            Self::QueueFull => "the picker's queue is full",
            Self::Expired => "the time in the picker's queue is over",
            Self::NotAdmitted => "a plugin does not admit it",
            Self::NoEndpoint => "there is no endpoint for it",
            Self::EngineQueue => "the engine's queue is full",
            Self::TooLong => "it is longer than the KV cache",
            Self::Lost => "the endpoint fails",
        }
    }
}
