//! What producers find about a request.

use std::{any::Any, sync::Arc};

/// What a producer has found about a request. Only its own plugins know the type.
#[derive(Debug, Clone)]
pub(crate) struct Finding(Arc<dyn Any + Send + Sync>);

impl Finding {
    pub(crate) fn new(found: impl Any + Send + Sync) -> Self {
        Self(Arc::new(found))
    }

    /// Returns the data, if it has this type.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}
