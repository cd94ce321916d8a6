//! The server as a whole: what all requests share.

use crate::{kinds::Registry, store::Store};

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Changes per resource that watches can look back.
    pub window: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { window: 4096 }
    }
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}

/// An API server.
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub(crate) state: std::sync::Arc<State>,
}
