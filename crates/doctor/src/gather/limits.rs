//! Limits of the requests.

use std::time::Duration;

/// The number of concurrent requests.
pub(super) const MAX_CONCURRENT_REQUESTS: usize = 16;

/// How long a service may take to respond to a request for its models.
pub(super) const MODELS_TIMEOUT: Duration = Duration::from_secs(5);
