//! Watches, apply, events, finalizers and webhooks: the shell around compose and plan.
//!
//! Every reconcile of a service is `observe → compose → plan → apply → report`. It reads the caches that watches fill, and
//! reads by name the Secrets that the service refers to. It writes only what differs, and the status last. It records the
//! objects that it looked up, found or not, so that a change of one of them enqueues exactly the services that depend on it.

mod adapters;
mod announce;
mod apply;
mod apply_cache;
mod args;
mod ask;
mod caches;
mod capabilities;
mod config;
mod config_users;
mod context;
mod downloads;
mod election;
mod error;
mod events;
mod fence;
mod finalizer;
mod hash;
mod health;
mod ignored_flags;
mod installed;
mod lookups;
mod merged;
mod metrics;
mod migration;
mod observe;
mod outbound;
mod pod_polling;
mod pod_reports;
mod process;
mod proof;
mod queue;
pub mod reader;
mod readiness;
mod refusal;
mod remove;
mod run;
mod secret_contents;
mod secrets;
mod service;
mod spans;
mod startup;
mod status;
mod terminating_namespaces;
mod view;
mod watch;
pub mod webhook;

pub use args::{Args, Migration};
pub use election::{Election, ElectionError};
pub use error::Error;
pub use health::{Listen, NoAddress};
pub use ignored_flags::IgnoredFlags;
pub use metrics::MetricsSettings;
pub use process::{Process, ProcessArgs};
pub use run::run;
pub use view::{View, ViewError, view};
