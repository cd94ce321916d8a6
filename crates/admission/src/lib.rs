//! The webhooks as pure functions of the content of a review.
//!
//! All callers use the same functions: the controller's webhook server, the embedded API server in its own process, and
//! `longboat validate` without any server.

mod answer;
pub mod configurations;
mod conversion_review;
mod envelope;
mod facts;
mod hub;
mod local_model;
mod merged;
mod model;
mod mutate;
mod older;
mod request;
mod review;
mod sparse;
mod validate;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Denial};
pub use conversion_review::conversion_review;
pub use envelope::MalformedReview;
pub use facts::{Facts, LocalModels, ModelCache};
pub use longboat_api::conversion::Version;
pub use merged::MergedSpecs;
pub use model::unfetchable;
pub use mutate::{Mutation, mutate};
pub use request::{Request, Subject};
pub use review::{Action, Hook, review};
pub use validate::validate;
