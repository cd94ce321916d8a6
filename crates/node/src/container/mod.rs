//! A single container: its command, environment, paths, process and log.

mod credentials;
pub(crate) mod env;
pub(crate) mod exec;
pub(crate) mod expand;
pub(crate) mod host;
pub(crate) mod instance;
pub(crate) mod launch;
pub(crate) mod lifecycle;
pub(crate) mod log;
pub mod paths;
pub(crate) mod process;
mod program;
pub mod roles;
pub(crate) mod sources;
mod terminal;

pub use program::is_program;
