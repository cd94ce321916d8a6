//! Admitters: who may be scheduled at all.

pub(crate) mod probabilistic;
