//! Logging set-up, the flags of the reference's logger, and traces.

pub mod logging;
pub mod traces;
mod trust;
pub mod zap;
