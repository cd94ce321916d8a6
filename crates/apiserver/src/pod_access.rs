//! What the API server asks of whoever runs the pods: their logs, connections to their ports, processes beside theirs,
//! and what they use.
//!
//! A cluster's API server forwards `pods/log`, `pods/portforward`, `pods/exec` and `pods/attach` to the kubelet of the pod's node. Here the node
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

/// The query of a `pods/exec` or `pods/attach` request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the query has these four flags")]
pub struct ExecOptions {
    /// The container, or the pod's only one.
    pub container: Option<String>,
    /// The command; empty for `attach`.
    pub command: Vec<String>,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants the output.
    pub stdout: bool,
    /// Whether the client wants the error output by itself; never with a terminal.
    pub stderr: bool,
    /// Whether the process gets a terminal.
    pub tty: bool,
}

/// Changes the size of a terminal: columns and rows.
pub type Resize = Box<dyn Fn((u16, u16)) + Send + Sync>;

/// A process whose streams are served to a client. Dropping it ends a process that was started for it.
pub struct Execution {
    /// Its input; dropping it closes that.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Its output.
    pub stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Its error output.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Changes the size of its terminal: columns and rows.
    pub resize: Option<Resize>,
    /// Its exit code. Holds the process.
    pub exit: BoxFuture<'static, io::Result<i32>>,
}

/// What something uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Processor time in billionths of a second for each second.
    pub cpu_nanocores: u64,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
}

/// What the containers of a pod use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodUsage {
    /// The pod.
    pub pod: PodRef,
    /// Those that run, by name.
    pub containers: Vec<(String, Resources)>,
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

    /// Starts a process in a container's environment.
    fn exec(
        &self,
        _pod: PodRef,
        _options: ExecOptions,
    ) -> BoxFuture<'static, Result<Execution, PodAccessError>> {
        no_commands()
    }

    /// Opens the output of a container's own process, from now on.
    fn attach(
        &self,
        _pod: PodRef,
        _options: ExecOptions,
    ) -> BoxFuture<'static, Result<Execution, PodAccessError>> {
        no_commands()
    }

    /// What each running pod uses now.
    fn usage(&self) -> BoxFuture<'static, Vec<PodUsage>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What the machine as a whole uses now.
    fn node_usage(&self) -> BoxFuture<'static, Resources> {
        Box::pin(std::future::ready(Resources::default()))
    }
}

fn no_commands() -> BoxFuture<'static, Result<Execution, PodAccessError>> {
    let refusal = "whoever runs the pods here runs no commands in them".to_owned();
    Box::pin(std::future::ready(Err(PodAccessError::BadRequest(refusal))))
}
