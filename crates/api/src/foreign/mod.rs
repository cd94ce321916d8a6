//! Kinds of other projects that we read or write: one file each.
//!
//! They are our own types because no published crate follows the versions of kube that we use. The types of kinds that we only
//! read have the fields that we read. What we write has all its fields, by name or as JSON.

pub mod backendtlspolicy;
pub mod gateway;
pub mod gatewayclass;
pub mod httproute;
pub mod httproute_filter;
pub mod inferencepool;
pub mod inferencepool_x;
pub mod leaderworkerset;
pub mod listenerset;
pub mod localmodelcache;
pub mod reference;
pub mod referencegrant;
pub mod scaledobject;
pub mod servingruntime;
