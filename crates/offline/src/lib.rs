//! What the controller and an API server would say about manifests, without either of them.
//!
//! A [`Workspace`] is what the manifests hold, sorted by what it is to us; a [`Context`] is what composing reads beside
//! the service: configs of the files and of the platform, ConfigMaps, settings. A [`scene::Scene`] is all that the
//! controller would look at, from manifests, from a cluster, or from manifests on top of a cluster; `render`, `explain` and
//! `diff` look at it. Every front door answers with data: printing is the binary's.

pub mod diff;
pub mod explain;
pub mod render;
pub mod scene;

mod assume;
mod context;
mod error;
mod objects;
mod paths;
mod settings;
pub mod validate;
mod workspace;

pub use context::Context;
pub use error::OfflineError;
pub use settings::{Presets, Settings};
pub use workspace::{DEFAULT_NAMESPACE, Member, Workspace};

#[cfg(test)]
mod tests;
