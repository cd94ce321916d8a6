//! What the API server asks of whoever runs the pods: their logs, and a connection to one of their ports.
//!
//! A cluster's API server forwards `pods/log` and `pods/portforward` to the kubelet of the pod's node. Here the node
//! lives in the same process and implements this trait; without one the subresources answer 503.

use std::io;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};

/// Which pod a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodRef {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
}

/// The query of a `pods/log` request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container, or the pod's only one.
    pub container: Option<String>,
    /// Keep the stream open and send new lines as they are written, until the container ends.
    pub follow: bool,
    /// The instance before the last restart.
    pub previous: bool,
    /// Put an RFC 3339 time and a space before each line.
    pub timestamps: bool,
    /// Only lines written at most this many seconds ago.
    pub since_seconds: Option<i64>,
    /// Only lines written at or after this time.
    pub since_time: Option<Timestamp>,
    /// Only the last so many lines.
    pub tail_lines: Option<u64>,
    /// Stop after so many bytes.
    pub limit_bytes: Option<u64>,
}

/// Why a pod's logs or port cannot be reached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PodAccessError {
    /// The pod, or its container, is not on this node (HTTP 404).
    #[error("{0}")]
    NotFound(String),
    /// The request makes no sense for this pod, for example no container named and several there (HTTP 400).
    #[error("{0}")]
    BadRequest(String),
    /// The node failed (HTTP 500).
    #[error("{0}")]
    Internal(String),
}

/// A byte stream in both directions.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

/// Log bytes as they are to be sent; it ends where the log ends.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Access to running pods, implemented by the node.
pub trait PodAccess: Send + Sync + 'static {
    /// Opens a container's log.
    fn logs(&self, pod: PodRef, options: LogOptions)
    -> BoxFuture<'static, Result<LogStream, PodAccessError>>;

    /// Connects to a port of a pod. One call for each forwarded connection.
    fn connect(
        &self,
        pod: PodRef,
        port: u16,
    ) -> BoxFuture<'static, Result<Box<dyn PortStream>, PodAccessError>>;
}
