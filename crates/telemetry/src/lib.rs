//! Set-up of logging, the flags of controller-runtime's logger (zap), and traces.

mod error;
pub mod logging;
pub mod traces;
mod trust;
pub mod zap;
