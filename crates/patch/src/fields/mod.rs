//! Sets of field paths: what `managedFields` stores as `fieldsV1`, and their algebra.

mod element;
mod serial;
mod set;

pub use element::{Element, Path};
pub use serial::FieldsError;
pub use set::Set;

#[cfg(test)]
mod tests;
