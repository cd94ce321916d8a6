//! An embeddable Kubernetes API server: in memory, kubectl-compatible.
//!
//! [`ApiServer`] answers as kube-apiserver 1.34 does, for the kinds of [`kinds::builtin`] and for custom resources: what
//! it answers is compared with recordings of the real one (`tests/transcripts`). A request passes
//!
//! ```text
//! front (in process, or a socket) → router → verbs: decode → default → admit → prepare → own → validate → admit → store
//! ```
//!
//! where `strategy` knows what is particular to a built-in kind, [`schema`] the content of built-in kinds and
//! `longboat_schema` that of custom resources, [`patching`] patches and field ownership, `webhook` and [`admission`] who else
//! is asked. [`store`] keeps the objects, with a window of past changes that watches read from. Nothing here schedules or
//! runs anything; [`Loops`] does the housekeeping that belongs to the objects themselves (garbage collection, emptying
//! namespaces, dropping old events).

mod accounts;
mod addresses;
pub mod admission;
mod admit;
mod answer;
mod bootstrap;
mod clock;
pub mod depth;
mod discovery;
pub mod examine;
mod form;
mod front;
pub mod fuzz;
pub mod kinds;
mod loops;
mod metrics;
pub mod patching;
pub mod pod_access;
mod pod_account;
mod pods;
mod protobuf;
mod rbac;
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
mod usage;
mod verbs;
mod webhook;

pub use loops::Loops;
pub use role::{Args, Error, run};
pub use server::{ApiServer, Options};
