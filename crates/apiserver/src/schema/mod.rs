//! Duplicate fields, and OpenAPI documents.

mod duplicates;
pub mod openapi;

pub use duplicates::duplicate_fields;
pub use openapi::{openapi_bytes, openapi_index};
