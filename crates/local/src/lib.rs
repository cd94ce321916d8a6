//! Wires the API server, controller, node and gateway into `longboat up`.
//!
//! [`Local::start`] makes a world: an API server on a loopback port with the CRDs, presets and the default gateway of
//! an installed KServe in it, the controller that a cluster would run, a node that runs pods as processes, and a
//! gateway. [`Local::apply`] writes what the user brought, and from there on the world is
//! watched like any cluster, with a [`kube::Client`] or kubectl.

mod addresses;
mod admission;
mod apply;
mod bootstrap;
mod kubeconfig;
mod schema_hint;
mod stand_in;
mod state;
mod unrun;
mod warnings;
mod world;

pub use apply::{AppliedDocument, ApplyError};
pub use bootstrap::BootstrapError;
pub use longboat_gateway::Access;
pub use stand_in::{StandInError, StoodIn};
pub use state::StateError;
pub use world::{Local, Options, StartError};
