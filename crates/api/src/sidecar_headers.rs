//! The request headers by which the picker tells the routing sidecar of a pod where the parts of a request run. Only a picker may set
//! them: a gateway removes them from client requests.

/// The endpoints that may compute the prompt.
pub const PREFILL: &str = "x-prefiller-host-port";
/// The endpoints that encode images, videos and audio.
pub const ENCODE: &str = "x-encoder-hosts-ports";
/// The engine of the pod that decodes.
pub const RANK: &str = "x-data-parallel-host-port";
/// An engine that has cached a part of the prompt.
pub const CACHE_SOURCE: &str = "x-kv-cache-source-host-port";
/// All of them.
pub const ALL: [&str; 4] = [PREFILL, ENCODE, RANK, CACHE_SOURCE];
