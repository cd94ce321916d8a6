//! An embeddable Kubernetes API server: in memory, kubectl-compatible.

mod addresses;
pub mod admission;
mod admit;
mod answer;
mod bootstrap;
mod clock;
mod discovery;
mod form;
mod front;
pub mod kinds;
mod loops;
mod metrics;
pub mod patching;
pub mod pod_access;
mod pods;
mod protobuf;
mod request;
mod respond;
mod role;
mod router;
pub mod schema;
mod selector;
mod server;
pub mod status;
pub mod store;
mod strategy;
mod tables;
mod verbs;
mod webhook;

pub use loops::Loops;
pub use role::{Args, Error, run};
pub use server::{ApiServer, Options};
