//! Flow control: requests wait in queues while the pool is saturated.
//!
//! A [`Queue`] holds the requests, in one band per priority. [`Settings`] choose the policies for the order of requests, and
//! limit the queue. This module has no clock: callers give the time in milliseconds since any fixed moment.

mod eviction;
mod limits;
mod queue;
mod section;
mod service;
mod settings;

pub use eviction::{ClosedBand, Eviction, EvictionOutcome, Lease};
pub use limits::UsageLimit;
pub use queue::{Arrival, Queue, QueueFull, Share, Shares, Ticket};
pub use service::FlowService;
pub use settings::{BandSettings, ConcurrencyMode, Detector, Fairness, LeastService, Ordering, Settings};
pub(crate) use settings::{check_part, read_detector};

#[cfg(test)]
mod tests;
