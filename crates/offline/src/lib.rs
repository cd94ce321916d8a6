//! What the controller and an API server would do with manifests, computed without either.
//!
//! All commands turn a manifest into the object that a cluster would store in the same way (`stored`). A [`scene::Scene`] is
//! everything on which the controller's plan would depend, from manifests, from a cluster, or from manifests on top of a
//! cluster. `render`, `explain` and `diff` read it, and `validate` plans the services that are valid. All of them return
//! data, which the binary prints.

pub mod diff;
pub mod explain;
pub mod render;
pub mod scene;
pub mod upgrade;

mod advice;
mod assume;
mod finding;
mod objects;
mod pods;
pub mod refusal;
mod settings;
mod stored;
pub mod validate;

pub use settings::{DEFAULT_NAMESPACE, Presets, Settings, complete_platform};

#[cfg(test)]
mod tests;
