//! Deciders: whether a request is worth a further stage (contract 04 §5.7).

pub(crate) mod always;
pub(crate) mod multimodal;
pub(crate) mod prefix_based;
