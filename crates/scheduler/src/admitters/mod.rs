//! Admitters decide whether a request may be scheduled at all.

pub(crate) mod latency_slo;
pub(crate) mod probabilistic;
