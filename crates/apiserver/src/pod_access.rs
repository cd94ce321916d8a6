//! The interface between the API server and the node: logs of pods, connections to their ports, processes in their
//! containers, and their resource usage.
//!
//! A cluster's API server forwards `pods/log`, `pods/portforward`, `pods/exec` and `pods/attach` to the kubelet of the pod's
//! node. Here the node runs in the same process and implements this trait. Without a node, these subresources answer 503.

use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};

/// Names a pod.
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
    /// The container; `None` means the pod's only container.
    pub container: Option<String>,
    /// Keep the stream open and send new lines as they are written, until the container ends.
    pub follow: bool,
    /// Read the log of the instance before the last restart.
    pub previous: bool,
    /// Put an RFC 3339 time and a space before each line.
    pub timestamps: bool,
    /// Only lines written at most this many seconds ago.
    pub since_seconds: Option<i64>,
    /// Only lines written at or after this time.
    pub since_time: Option<Timestamp>,
    /// Only the last lines, this many.
    pub tail_lines: Option<u64>,
    /// Stop after this many bytes.
    pub limit_bytes: Option<u64>,
}

/// The query of a `pods/exec` or `pods/attach` request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the query has these four flags")]
pub struct ExecOptions {
    /// The container; `None` means the pod's only container.
    pub container: Option<String>,
    /// The command; empty for `attach`.
    pub command: Vec<String>,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants the output.
    pub stdout: bool,
    /// Whether the client wants the error output as a stream of its own; never with a terminal.
    pub stderr: bool,
    /// Whether the process gets a terminal.
    pub tty: bool,
}

/// Changes the size of a terminal: columns and rows.
pub type Resize = Box<dyn Fn((u16, u16)) + Send + Sync>;

/// A process whose streams are served to a client. Dropping this ends a process that was started for the client.
pub struct Execution {
    /// The process's input. Dropping the writer closes the input.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// The process's output.
    pub stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// The process's error output.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Changes the size of the process's terminal: columns and rows.
    pub resize: Option<Resize>,
    /// The process's exit code. This future owns the process.
    pub exit: BoxFuture<'static, io::Result<i32>>,
}

/// CPU and memory usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU time in nanoseconds per second.
    pub cpu_nanocores: u64,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
}

/// The usage of a pod's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodUsage {
    /// The pod.
    pub pod: PodRef,
    /// The running containers, by name.
    pub containers: Vec<(String, Resources)>,
}

/// Why a pod's logs or port cannot be reached.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PodAccessError {
    /// The pod, or the container, is not on this node (HTTP 404).
    #[error("{0}")]
    NotFound(String),
    /// The request does not fit this pod, for example because it names no container and the pod has several (HTTP 400).
    #[error("{0}")]
    BadRequest(String),
    /// The node failed (HTTP 500).
    #[error("{0}")]
    Internal(String),
}

/// A byte stream in both directions.
pub trait PortStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PortStream for T {}

/// The bytes of a log in the form that the client gets. The stream ends where the log ends.
pub type LogStream = BoxStream<'static, io::Result<Bytes>>;

/// Access to running pods, implemented by the node.
#[async_trait]
pub trait PodAccess: Send + Sync + 'static {
    /// Opens a container's log.
    async fn logs(&self, pod: PodRef, options: LogOptions) -> Result<LogStream, PodAccessError>;

    /// Connects to a port of a pod. Called once for each forwarded connection.
    async fn connect(&self, pod: PodRef, port: u16) -> Result<Box<dyn PortStream>, PodAccessError>;

    /// Starts a process in a container's environment.
    async fn exec(&self, _pod: PodRef, _options: ExecOptions) -> Result<Execution, PodAccessError> {
        Err(no_commands())
    }

    /// Attaches to a container's main process and streams its output from now on.
    async fn attach(&self, _pod: PodRef, _options: ExecOptions) -> Result<Execution, PodAccessError> {
        Err(no_commands())
    }

    /// Returns the current usage of each running pod.
    async fn usage(&self) -> Vec<PodUsage> {
        Vec::new()
    }

    /// Returns the current usage of the whole machine.
    async fn node_usage(&self) -> Resources {
        Resources::default()
    }
}

fn no_commands() -> PodAccessError {
    PodAccessError::BadRequest("this server cannot run commands in pods".to_owned())
}
