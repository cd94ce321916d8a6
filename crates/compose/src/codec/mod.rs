//! Reads and writes JSON as Go does.
//!
//! The reference decodes each layer into Go structs and encodes it again. Which fields that adds and drops decides every
//! question about zero values. [`normalise`] is that round trip on a JSON tree, guided by the [type tables](crate::schema).
//! [`encode`] writes a tree in the order and with the escapes of Go's encoder: templates see that text, and error positions
//! refer to it. [`syntax`] words syntax errors.

mod encode;
mod normalise;
mod syntax;

pub(crate) use encode::{encode, escape};
pub use normalise::TypeMismatch;
pub(crate) use normalise::{decode, normalise};
pub(crate) use syntax::parse;
