//! Endpoint picking as pure data: pool state, filters, scorers, profiles, pickers and the prefix index.
//!
//! A [`Scheduler`] is built from an [`EndpointPickerConfig`](config::EndpointPickerConfig) and never changes. The effects of
//! earlier requests (the prefixes that an endpoint has seen, its requests in flight) are in [`State`], which the caller owns. A
//! pick has two steps:
//!
//! * [`Scheduler::schedule`] *scores*: it reads the state, the candidates and the request, and returns a [`Decision`]. It
//!   changes nothing.
//! * [`Scheduler::commit`] *learns*: it records the decision in the state, and returns a [`Reservation`] to release when the
//!   response is complete.
//!
//! This crate has no clock and no source of randomness: callers provide both. The behaviour is that of llm-d-router v0.10.0
//! unless a comment says otherwise.
//!
//! Each plugin type is one file under `filters/`, `scorers/`, `pickers/`, `handlers/`, `deciders/`, `admitters/` or
//! `producers/`, and one line in `registry/mod.rs`.

mod admitters;
mod attribute;
mod builder;
mod burst;
pub mod config;
mod context;
mod deciders;
mod decision;
mod endpoint;
mod error;
mod estimates;
mod filters;
mod finding;
pub mod flow;
mod handlers;
mod inflight;
mod latency;
mod listing;
mod media;
mod numbers;
mod pairing;
mod parameters;
mod pickers;
mod plugin;
mod precise;
mod prefix;
mod prefixes;
mod prelude;
mod producer;
mod producers;
mod profile;
pub mod quantity;
mod reading;
mod registry;
mod report;
mod request;
mod requirements;
mod run;
mod scheduler;
mod scorers;
mod sessions;
mod state;
mod stopwatch;
mod timed_plugin;
mod topology;

pub use burst::{Burst, BurstSettings};
pub use decision::{Decision, Disaggregation, FilterTrace, Flow, PrefixHit, ProfileRun, ScorerTrace, Stages};
pub use endpoint::{Endpoint, LoraAdapters, Metrics, Slot, Slots, Snapshot};
pub use error::{ConfigError, ScheduleError};
pub use estimates::{MediaEstimates, Resolution, VideoProperties};
pub use inflight::Reservation;
pub use latency::{Features, LatencyObjective, LatencySettings};
pub use media::{Media, Modality};
pub use numbers::{float, millis};
pub use precise::{EndpointEvents, EventSource, Holdings, IndexCounts, ListenForEvents, PreciseSettings};
pub use producers::encoder_cache::lookup::EncoderLookup;
pub use registry::{REFUSED, known_types};
pub use report::{Report, Usage};
pub use request::{HeaderLookup, NoHeaders, Prediction, Prompt, Request};
pub use requirements::TokenizerSettings;
pub use scheduler::{Handler, Options, Scheduler};
pub use sessions::Agents;
pub use state::State;
pub use stopwatch::{Role, Stopwatch};

#[cfg(test)]
mod tests;
