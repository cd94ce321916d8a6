//! One place that decides how logs look: to stderr, filtered, as text for people or JSON for collectors.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Readable lines.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What to log, and how.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Lines as text or JSON.
    pub format: Format,
    /// `tracing` filter directives used when `LONGBOAT_LOG` is not set, for instance `info,hyper=warn`.
    pub default_filter: String,
}

/// Starts logging to stderr. A second call in one process changes nothing, so that tests may call it freely.
pub fn init(options: &LogOptions) {
    let filter =
        EnvFilter::try_from_env("LONGBOAT_LOG").unwrap_or_else(|_| EnvFilter::new(&options.default_filter));
    let registry = tracing_subscriber::registry().with(filter);
    // What a file or `kubectl logs` gets carries no colours.
    let layer = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let _ = match options.format {
        Format::Text => registry.with(layer).try_init(),
        Format::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
}
