//! Filters decide which candidates may be picked.

pub(crate) mod by_label;
pub(crate) mod endpoint_attribute;
pub(crate) mod header_testing;
pub(crate) mod label_selector;
pub(crate) mod prefix_affinity;
pub(crate) mod role;
pub(crate) mod saturation;
pub(crate) mod session_affinity;
pub(crate) mod slo_headroom;
pub(crate) mod topology_affinity;
pub(crate) mod utilization;
