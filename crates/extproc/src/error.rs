//! The errors of the client.

/// Why a stream to a processor failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection could be made.
    #[error("cannot connect to the processor at {target}")]
    Connect {
        /// Host and port.
        target: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke, or the stream was reset.
    #[error("the stream to the processor at {target} failed")]
    Broken {
        /// Host and port.
        target: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The processor ended the stream with a gRPC error.
    #[error("the processor at {target} failed with gRPC status {code}: {message}")]
    Status {
        /// Host and port.
        target: String,
        /// The gRPC status code's number.
        code: i32,
        /// The status message.
        message: String,
    },
}
