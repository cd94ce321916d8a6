//! Duplicate fields, and OpenAPI documents.

mod duplicates;
pub mod openapi;

pub(crate) use duplicates::duplicate_fields;
pub(crate) use openapi::{openapi_bytes, openapi_index};
