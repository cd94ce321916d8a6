//! Limits of requests that wait in Longboat's gateway until a service that is scaled to zero has a replica. `simulate` has the same.

use std::time::Duration;

/// The most requests that wait for one service, so that one that never starts leaves room for the others.
pub const MAX_REQUESTS: usize = 256;

/// How long a request waits. A large model loads for minutes, and clients of OpenAI's API wait for ten.
pub const TIMEOUT: Duration = Duration::from_mins(10);
