//! Connections into pods.

pub(crate) mod forward;
