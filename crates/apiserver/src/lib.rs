//! An embeddable Kubernetes API server: in memory, kubectl-compatible.

pub mod kinds;
pub mod patching;
pub mod pod_access;
pub mod schema;
mod server;
pub mod status;
pub mod store;
mod webhook;

pub use server::{ApiServer, Options};
