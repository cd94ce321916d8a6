//! Deciders: whether a request is worth a further stage.

pub(crate) mod always;
pub(crate) mod multimodal;
pub(crate) mod prefix_based;
