//! An embeddable Kubernetes API server: in memory, kubectl-compatible.
//!
//! [`ApiServer`] answers as kube-apiserver 1.34 does, for the kinds of [`longboat_strategy::kinds::builtin`] and for custom
//! resources. Tests compare its answers with recordings of the real server (`tests/transcripts`). A request goes through
//! these steps:
//!
//! ```text
//! front (in process, or a socket) → router → verbs: decode → default → admit → prepare → own → validate → admit → store
//! ```
//!
//! `longboat_strategy` has the fields and the behaviour of each built-in kind, `longboat_schema` those of custom resources.
//! [`patching`] handles patches and field ownership, `webhook` and [`admission`] admission.
//! [`store`] keeps the objects and a window of past changes, from which watches read. Nothing here schedules or runs pods.
//! [`ApiServer::run_loops`] does the housekeeping of the objects (garbage collection, emptying namespaces, dropping old events).

mod accounts;
mod addresses;
pub mod admission;
mod admit;
mod allocation;
mod answer;
mod bootstrap;
mod clock;
mod deletion;
mod depth;
mod discovery;
mod edit;
mod effects;
mod form;
mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod limits;
mod long;
mod loops;
mod metrics;
mod patching;
mod plugins;
pub mod pod_access;
mod pod_account;
mod pods;
mod protobuf;
mod rbac;
mod request;
mod respond;
mod review;
mod role;
mod router;
pub mod schema;
mod selector;
mod server;
mod state;
pub mod status;
pub mod store;
mod tables;
mod tokens;
mod usage;
mod verbs;
mod webhook;

use longboat_strategy::{self as strategy, kinds};
pub use role::{Args, Error, run};
pub use server::ApiServer;
pub use state::Options;

#[cfg(test)]
mod corpus;
