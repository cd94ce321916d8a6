//! Runs the API server, controller, node and gateway for `longboat up`.
//!
//! [`Local::start`] starts a local cluster: an API server on a loopback port that has the CRDs, presets and the default
//! gateway of an installed KServe, the controller that a cluster would run, a node that runs pods as processes, and a
//! gateway. [`Local::apply`] writes the user's objects. After that, the cluster can be used like any cluster, with a
//! [`kube::Client`] or kubectl.

mod addresses;
mod admission;
mod apply;
mod bootstrap;
mod cluster;
mod controller;
mod identity;
mod kubeconfig;
mod schema_hint;
mod shared_picker;
mod stand_in;
mod state;
mod unsupported;
mod warnings;

pub use apply::{AppliedDocument, ApplyError};
pub use bootstrap::BootstrapError;
pub use cluster::{Local, Options, StartError};
pub use longboat_gateway::{Entrance, Guard, Keys, Picking, Routes};
pub use stand_in::{StandInError, Substitution};
pub use state::StateError;

/// Namespace of objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";
