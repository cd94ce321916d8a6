//! The fields of built-in kinds, duplicate fields, and OpenAPI documents. `longboat-schema` validates custom resources.

mod builtin;
mod duplicates;
pub mod openapi;

pub use builtin::{mistyped_builtin_field, prune_builtin, unknown_builtin_fields};
pub(crate) use builtin::{unread_int_or_string, unread_quantity, unread_time};
pub use duplicates::duplicate_fields;
pub use openapi::{openapi_bytes, openapi_document, openapi_index};
