//! JSON the way a Go program reads and writes it.
//!
//! The reference decodes each layer into Go structs and encodes it again, and what that adds and drops decides every
//! question about zero values. [`normalise`] is that round trip on a JSON tree, guided by the
//! [type tables](crate::schema); [`encode`] prints a tree in the order and with the escapes of Go's encoder, which
//! templates see and error positions count; [`syntax`] words syntax errors.

mod encode;
mod normalise;
mod syntax;

pub(crate) use encode::{encode, escape};
pub(crate) use normalise::normalise;
pub(crate) use syntax::parse;
