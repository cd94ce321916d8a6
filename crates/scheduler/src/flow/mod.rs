//! Flow control: requests wait in queues while the pool is saturated.
//!
//! A [`Queue`] holds the requests, in one band per priority. [`Settings`] choose the policies for the order of requests, and
//! limit the queue. This module has no clock: callers give the time in milliseconds since any fixed moment.

mod detector;
mod eviction;
mod limits;
mod queue;
mod saturation;
mod section;
mod service;
mod settings;
mod stage;

pub use detector::{ConcurrencyMode, Detector, StagedDetector};
pub(crate) use detector::{FilterDetector, check_several, read_detector};
pub use eviction::{ClosedBand, Eviction, EvictionOutcome, Lease};
pub use limits::UsageLimit;
pub use queue::{Arrival, Queue, QueueFull, Share, Shares, Ticket};
pub use saturation::{PoolMember, Reading};
pub use section::TimeToLive;
pub use service::FlowService;
pub(crate) use settings::check_part;
pub use settings::{BandSettings, Fairness, LeastService, Ordering, Settings};
pub use stage::Stage;

#[cfg(test)]
mod tests;
