//! What a pool of engines would do with traffic, in virtual time.
//!
//! The picker is the real one: [`longboat_scheduler`] with an `EndpointPickerConfig`, its flow control, and metrics as old as its scrapes
//! make them. The autoscaler is the one of local mode (`longboat-autoscale`). The engines are those of [`longboat_engine_model`], which
//! the simulator uses too. A run reads one request after the other, so its memory depends on the endpoints, their blocks and the requests
//! in flight, and not on the length of the trace. The same trace, settings and seed give the same result.
//!
//! This crate opens no files, and has no clock. Randomness comes from the seed.

mod autoscaler;
mod chart;
mod choice;
mod comparison;
mod difference;
mod explain;
pub mod generate;
mod histogram;
pub mod import;
mod numbers;
pub mod page;
mod pool;
mod rejection;
mod report;
mod request_times;
mod routing;
mod run;
mod sample;
mod series;
pub mod sweep;
pub mod trace;
pub mod workload;

pub use autoscaler::AutoscalerSettings;
pub use choice::{Choice, Decider, ExampleScore, ExampleTimes};
pub use difference::{Difference, Example, KindDifference, Means, Pair, RequestKind};
pub use explain::{advice, differences, limit};
pub use histogram::{Histogram, RELATIVE_ERROR};
pub use pool::{PoolChange, PoolSettings};
pub use rejection::Rejections;
pub use report::{Distribution, PluginShare, Recorder, Report, Slo, WaitShares};
pub use request_times::RequestTimes;
pub use routing::{ModelRoutes, RoutedRequests};
pub use run::{MAX_PICKERS, PickerSettings, Policy, RunError, Settings, Sharing, run};
pub use series::Series;
