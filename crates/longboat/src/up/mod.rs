//! The behaviour of `up` while services run.

pub(crate) mod cause;
mod deadline;
pub(crate) mod engine;
mod engine_command;
pub(crate) mod guide;
pub(crate) mod node;
pub(crate) mod prompt;
pub(crate) mod question;
pub(crate) mod service;
pub(crate) mod shutdown_message;
pub(crate) mod watch;

pub(crate) use service::Service;
