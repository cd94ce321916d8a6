//! Logging set-up and the metrics registry shared by the services.

pub mod logging;
