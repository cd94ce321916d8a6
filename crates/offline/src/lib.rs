//! What the controller and an API server would say about manifests, without either of them.
//!
//! A [`Workspace`] is what the manifests hold, sorted by what it is to us; a [`Context`] is what composing reads beside
//! the service: configs of the files and of the platform, ConfigMaps, settings. Every front door of this crate takes
//! these two, and answers with data: printing is the binary's.

mod context;
mod error;
mod workspace;

pub use context::{Context, Presets, Surroundings};
pub use error::OfflineError;
pub use workspace::{DEFAULT_NAMESPACE, Member, Workspace};
