//! gRPC health checks.

use std::sync::Arc;

use longboat_extproc::HealthCheck;

use crate::core::Core;

/// Answers every service name alike, as the reference does without leader election. With it (`always_live`), `liveness` is always
/// fine, so that a follower is not restarted.
pub(crate) fn check(core: &Arc<Core>, always_live: bool) -> HealthCheck {
    let core = Arc::clone(core);
    Arc::new(move |service| (always_live && service == "liveness") || core.is_serving())
}
