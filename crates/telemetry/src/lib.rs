//! Logging set-up, and the flags of the reference's logger.

pub mod logging;
pub mod zap;
