//! InferencePools of both groups.

use longboat_api::foreign::{inferencepool::InferencePool, inferencepool_x};

use super::{Compare, carry_over_metadata, metadata_differs, same};
use crate::server_defaults;

impl Compare for InferencePool {
    fn differs(&self, live: &Self) -> bool {
        let mut desired = self.spec.clone();
        server_defaults::inference_pool(&mut desired);
        metadata_differs(&self.metadata, &live.metadata) || !same(&desired, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::inference_pool(&mut self.spec);
    }
}

impl Compare for inferencepool_x::InferencePool {
    fn differs(&self, live: &Self) -> bool {
        let mut desired = self.spec.clone();
        server_defaults::inference_pool_x(&mut desired);
        metadata_differs(&self.metadata, &live.metadata) || !same(&desired, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::inference_pool_x(&mut self.spec);
    }
}
