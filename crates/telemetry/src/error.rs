//! Why traces cannot be sent.

use opentelemetry_otlp::ExporterBuildError;

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// A file in the TLS settings cannot be read.
    #[error("cannot read {path}, which {variable} names: {source}")]
    Unreadable {
        /// The variable that names the file.
        variable: String,
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A client certificate is configured without its key, or a key without its certificate.
    #[error("{present} is set, so {missing} must also be set")]
    Half {
        /// The variable that is set.
        present: String,
        /// The missing variable.
        missing: String,
    },
    /// The address, or a setting from the environment, cannot be used.
    #[error(
        "cannot send traces to `{endpoint}`: {source}; expected http://HOST:PORT or https://HOST:PORT of a collector's gRPC port"
    )]
    Exporter {
        /// The address.
        endpoint: String,
        /// The cause.
        source: ExporterBuildError,
    },
}
