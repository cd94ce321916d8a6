//! Strategic merge patch, and the algebra of managed fields. Both read the table of `longboat-types`.
//!
//! * [`strategic`]: applies and computes strategic merge patches.
//! * [`fields`]: sets of field paths, as stored in `managedFields`.
//! * [`schema`]: the same information as a schema for server-side apply, from the table or from a CRD.
//! * [`typed`]: objects with a schema: their fields, differences and merges.
//! * [`managed`]: who owns which field, through updates and applies.
//! * [`gofmt`]: formats values as Go does, for error texts.
//!
//! Everything here is a pure function. The caller provides time and identity.

pub mod fields;
pub mod gofmt;
pub mod managed;
pub mod schema;
pub mod strategic;
pub mod typed;
