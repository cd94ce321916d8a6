//! Sets of field paths, which `managedFields` stores as `fieldsV1`, and the operations on them.

mod element;
mod serial;
mod set;

pub use element::{Element, Path};
pub use serial::FieldsError;
pub use set::Set;

#[cfg(test)]
mod tests;
