//! What the controller and an API server would say about manifests, without either of them.
//!
//! A manifest becomes the object that a cluster would store of it in one way for every verb (`stored`). A [`scene::Scene`] is
//! all that the controller's plan would depend on, from manifests, from a cluster, or from manifests on top of a cluster; `render`,
//! `explain` and `diff` read it, and `validate` plans the services that it found valid. All of them return data, which the
//! binary prints.

pub mod diff;
pub mod explain;
pub mod render;
pub mod scene;
pub mod upgrade;

mod assume;
mod objects;
mod paths;
mod settings;
mod stored;
pub mod validate;

pub use settings::{DEFAULT_NAMESPACE, Presets, Settings};

#[cfg(test)]
mod tests;
