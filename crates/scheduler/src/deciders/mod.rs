//! Deciders decide whether a request goes through a further stage.

pub(crate) mod always;
pub(crate) mod multimodal;
pub(crate) mod prefix_based;
