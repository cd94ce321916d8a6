//! InferencePools of both groups.

use longboat_api::foreign::{inferencepool::InferencePool, inferencepool_x};

use super::{Compare, carry_over_metadata, metadata_differs, stored};

impl Compare for InferencePool {
    const SPEC: &'static str = "inference.v1.InferencePoolSpec";

    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}

impl Compare for inferencepool_x::InferencePool {
    const SPEC: &'static str = "inference.v1alpha2.InferencePoolSpec";

    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}
