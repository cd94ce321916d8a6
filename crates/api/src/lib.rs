//! The `LLMInferenceService` API: its types, conditions, defaults, validation and CRDs, and the foreign kinds that Longboat
//! reads or writes.
//!
//! Everything here is a pure function over plain data. The types serialize like Go's `encoding/json` serializes KServe's
//! types, so a value survives a round trip through either implementation.

pub mod annotations;
pub mod child_name;
pub mod conditions;
pub mod conversion;
pub mod crd;
pub mod decisions;
pub mod defaulting;
pub mod engine;
pub mod fields;
pub mod foreign;
pub mod groups;
pub mod labels;
pub mod lora_paths;
pub mod lora_routing;
pub mod names;
pub mod newer;
pub mod node;
pub mod picker_choice;
pub mod picker_config;
pub mod picker_plugins;
pub mod proof;
pub mod reasons;
pub mod safe_name;
pub mod scrapers;
pub mod series;
pub mod shared_picker;
pub mod shell;
pub mod sidecar_headers;
pub mod switches;
pub mod termination;
pub mod uri;
pub mod v1alpha2;
pub mod validation;
pub mod vllm;
pub mod wake_queue;

mod cel;
mod resource;
mod schema;
mod wire;

pub use child_name::child_name;
