//! What the webhooks answer (contract 01 §6–§9, §13): pure functions over what a review holds.
//!
//! One path for every front door: the webhook server of the controller, the embedded API server in its own process, and
//! `longboat validate` without any server.

mod answer;
mod mutate;
mod read;
mod request;
mod validate;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Denial};
pub use mutate::mutate;
pub use request::{Request, Rules, Subject, Version};
pub use validate::validate;
