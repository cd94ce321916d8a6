//! Merges layers to one effective spec, and records where each leaf came from.
//!
//! A service names a model and little else. Presets of the platform and configs that the user refers to fill in the rest.
//! [`compose()`] selects the presets, merges them, the `baseRefs` and the service's own spec by strategic merge, renders Go
//! templates, and then derives some remaining values. It is a pure function over plain data.
//!
//! Every reconcile of every service runs it. So layers are prepared once ([`Layer`]), and merged presets are cached
//! ([`Composer`]).

pub mod field_path;
pub mod go;
pub mod outcome;
pub mod platform;
pub mod presets;
pub mod sample;
pub mod version;

mod advice;
mod codec;
mod compose;
mod dra;
mod effective;
mod error;
mod functions;
mod inputs;
mod keys;
mod kv_cache;
mod layer;
mod lora;
mod origin;
mod pin;
mod provenance;
mod render;
mod rewrite;
mod rules;
mod runtime;
mod schema;
mod select;
mod template_input;
mod warning;

pub use compose::{Composer, compose};
pub use effective::Effective;
pub use error::{ComposeError, RefusedField, Retry};
pub use inputs::Inputs;
pub use kv_cache::{SmallSharedMemory, small_shared_memory};
pub use layer::{ConfigMapSource, ConfigSet, ConfigSource, Layer, internal_annotations, texts_of};
pub use lora::{Adapter, AdapterSource, adapters};
pub use origin::Origin;
pub use pin::PresetNames;
pub use platform::{MisspeltKey, Platform, misspelt_keys};
pub use provenance::{LayerValue, Leaf, Provenance};
pub use rewrite::DEFAULT_CONFIG_KEY;
pub use template_input::{TemplateInput, template_is_sound};
pub use warning::Warning;

#[cfg(test)]
mod tests;
