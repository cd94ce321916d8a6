//! Strategic merge patch, managed-fields algebra, and the one table of list keys that both share.
//!
//! * [`table`]: what Kubernetes' API definitions say of each field: how its list merges, under which keys.
//! * [`strategic`]: strategic merge patch, applied and computed.
//! * [`fields`]: sets of field paths, as `managedFields` stores them.
//! * [`schema`]: the same facts as a schema for server-side apply, from the table or from a CRD.
//! * [`typed`]: objects seen through a schema: their fields, differences, merges.
//! * [`managed`]: who owns which field, through updates and applies.
//! * [`gofmt`]: values as Go prints them, for error texts.
//!
//! Everything here is a pure function: time and identity are handed in.

pub mod fields;
pub mod gofmt;
pub mod managed;
pub mod schema;
pub mod strategic;
pub mod table;
pub mod typed;
