//! The behaviour of `up` while services run.

pub(crate) mod cause;
pub(crate) mod chat;
mod deadline;
pub(crate) mod edits;
pub(crate) mod engine;
mod engine_command;
mod engine_key;
mod guide;
pub(crate) mod interrupts;
mod manifests;
mod node;
pub(crate) mod prompt;
pub(crate) mod question;
pub(crate) mod service;
pub(crate) mod session;
mod shutdown_message;
mod unused_images;
mod watch;

pub(crate) use service::Service;
