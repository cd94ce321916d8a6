//! The objects of an installation on a cluster. This is the only source for `longboat install`, for the Kustomize base and
//! its overlays, and for the Helm charts.
//!
//! [`Values`] are the choices of the user, [`Installation`] has the objects that follow from them, and [`files`] writes these
//! as the files of `deploy/`. Rights are written by hand in `deploy/rbac` and presets in `presets/`. Both are embedded here.

mod certificates;
mod check;
mod controller;
mod file;
pub mod files;
mod installation;
pub mod kinds;
mod kustomize;
mod layers;
mod metadata;
mod monitoring;
pub mod names;
pub mod picker;
mod platform;
mod rights;
mod values;

pub use installation::{InstallError, Installation};
pub use values::{Gateway, Metrics, Monitoring, PlatformValues, SharedPicker, Values, ValuesError};
