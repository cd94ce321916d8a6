//! Requests that wait in Longboat's gateway until a service that is scaled to zero has a replica: their limits, and the metrics by which
//! autoscalers see them. `simulate` has the same.

use std::time::Duration;

/// The most requests that wait for one service, so that one that never starts leaves room for the others.
pub const MAX_REQUESTS: usize = 256;

/// How long a request waits. A large model loads for minutes, and clients of OpenAI's API wait for ten.
pub const TIMEOUT: Duration = Duration::from_mins(10);

/// The metric with the number of waiting requests: the one that llm-d's picker has for the queues of its flow control, and its former name,
/// which many triggers still have.
pub const SIZE_METRIC: [&str; 2] =
    ["llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size"];

/// The metric with the bytes of their bodies, with its former name.
pub const BYTES_METRIC: [&str; 2] =
    ["llm_d_epp_flow_control_queue_bytes", "inference_extension_flow_control_queue_bytes"];
