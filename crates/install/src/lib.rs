//! What an installation on a cluster consists of: one source for `longboat install`, the Kustomize
//! base and its overlays, and the Helm charts.
//!
//! [`Values`] are what can be chosen, [`Installation`] is what follows from them, [`files`] prints it as the files of
//! `deploy/`. Rights are written by hand in `deploy/rbac`, presets in `presets/`; both are embedded here.

mod certificates;
mod controller;
pub mod files;
mod installation;
pub mod kinds;
mod kustomize;
pub mod names;
mod platform;
mod rights;
mod values;

pub use installation::{InstallError, Installation};
pub use values::{Metrics, PlatformValues, Values, ValuesError};
