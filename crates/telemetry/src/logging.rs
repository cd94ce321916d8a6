//! Logging: to stderr, filtered, as text for people or JSON for collectors.

use std::{
    borrow::Cow,
    io::{self, IsTerminal},
};

use jiff::Timestamp;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{LevelFilter, filter_fn},
    fmt::{self, format::Writer, time::FormatTime},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::traces::{SPANS, Traces};

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The variable that sets the format of roles without a flag for it: `text` or `json`.
const FORMAT_VARIABLE: &str = "LONGBOAT_LOG_FORMAT";

/// The format of times, in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Time {
    /// Microseconds.
    #[default]
    Usual,
    /// Seconds since 1970, with a fraction.
    Epoch,
    /// Milliseconds since 1970, with a fraction.
    Millis,
    /// Nanoseconds since 1970.
    Nano,
    /// ISO 8601 with milliseconds.
    Iso8601,
    /// RFC 3339 with seconds.
    Rfc3339,
    /// RFC 3339 with nanoseconds.
    Rfc3339Nano,
}

/// Options of logging.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Lines as text or JSON.
    pub format: Format,
    /// `tracing` filter directives that override `LONGBOAT_LOG`.
    pub filter: Option<String>,
    /// `tracing` filter directives used when `LONGBOAT_LOG` is not set, for instance `info,hyper=warn`.
    pub default_filter: String,
    /// The format of times.
    pub time: Time,
}

/// Starts logging to stderr, and recording traces if they are configured. A second call in the same process does nothing, so
/// tests may call it freely.
pub fn init(options: &LogOptions, traces: Option<&Traces>) {
    init_with(options, traces, io::stderr);
}

/// Like [`init`], for a program that draws on stderr and coordinates log lines with its drawing.
pub fn init_with<W>(options: &LogOptions, traces: Option<&Traces>, writer: W)
where
    W: for<'writer> fmt::MakeWriter<'writer> + Send + Sync + 'static,
{
    let variable = std::env::var("LONGBOAT_LOG").ok().filter(|text| !text.is_empty());
    let named = variable.as_deref().filter(|text| is_filter(text));
    let filter = match (&options.filter, named) {
        (Some(filter), _) => EnvFilter::new(filter),
        (None, Some(text)) => EnvFilter::new(directives(text)),
        (None, None) => EnvFilter::new(&options.default_filter),
    };
    // Files and `kubectl logs` get no colours.
    let layer =
        fmt::layer().with_writer(writer).with_ansi(io::stderr().is_terminal()).with_timer(options.time);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match options.format {
        Format::Text => layer.boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    if let Some(traces) = traces {
        let spans = tracing_opentelemetry::layer()
            .with_tracer(traces.tracer())
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        // A filter for each layer, because spans are recorded at a level that logs leave out.
        let is_ours = filter_fn(|metadata| metadata.is_span() && metadata.target() == SPANS);
        let _ = tracing_subscriber::registry()
            .with(layer.with_filter(filter))
            .with(spans.with_filter(is_ours))
            .try_init();
    } else {
        // A single filter for everything, so that a disabled event costs only the check of a flag.
        let _ = tracing_subscriber::registry().with(layer).with(filter).try_init();
    }
    if let Some(value) = std::env::var(FORMAT_VARIABLE).ok().filter(|text| !is_format(text)) {
        tracing::warn!(value, "LONGBOAT_LOG_FORMAT is neither text nor json, so it has no effect.");
    }
    if let Some(value) = variable.filter(|text| !is_filter(text)) {
        tracing::warn!(
            value,
            "LONGBOAT_LOG is neither a level (error, warn, info, debug) nor levels by module, so the usual level applies."
        );
    }
}

/// Whether the variable of the format names a format, or nothing.
fn is_format(text: &str) -> bool {
    ["", "json", "text"].contains(&text)
}

/// Whether a text is a filter. Any word is one, of the module with this name, and shows nothing of all others: so a misspelt level
/// would make a program silent.
fn is_filter(text: &str) -> bool {
    let is_level = text.parse::<LevelFilter>().is_ok();
    let names_module = text.contains(['=', ',', ':', '[']) || text.starts_with("longboat");
    (is_level || names_module) && EnvFilter::try_new(text).is_ok()
}

/// Returns the filter that `LONGBOAT_LOG` stands for. A level alone is that of our own crates: in `up`, libraries write forty lines
/// for each of ours at `debug`.
fn directives(text: &str) -> Cow<'_, str> {
    match text.parse::<LevelFilter>() {
        Ok(level) if level > LevelFilter::INFO => format!("info,longboat={level}").into(),
        _ => text.into(),
    }
}

// === impl Format ===

impl Format {
    /// The format of a role without a flag for it: what `LONGBOAT_LOG_FORMAT` says, else JSON in a pod of a cluster, where
    /// collectors read logs, and text elsewhere. `longboat up` sets the variable for its pods.
    #[must_use]
    pub fn of_environment() -> Self {
        let named = std::env::var(FORMAT_VARIABLE).ok();
        Self::of(named.as_deref(), std::env::var_os("KUBERNETES_SERVICE_HOST").is_some())
    }

    fn of(named: Option<&str>, in_cluster: bool) -> Self {
        match named {
            Some("json") => Self::Json,
            Some("text") => Self::Text,
            _ if in_cluster => Self::Json,
            _ => Self::Text,
        }
    }
}

// === impl Time ===

impl FormatTime for Time {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&self.print(Timestamp::now()))
    }
}

impl Time {
    fn print(self, at: Timestamp) -> String {
        let nanoseconds = at.as_nanosecond();
        match self {
            Self::Usual => format!("{at:.6}"),
            Self::Epoch => decimal(nanoseconds, 1_000_000_000, 9),
            Self::Millis => decimal(nanoseconds, 1_000_000, 6),
            Self::Nano => nanoseconds.to_string(),
            Self::Iso8601 => format!("{at:.3}"),
            Self::Rfc3339 => format!("{at:.0}"),
            Self::Rfc3339Nano => format!("{at:.9}"),
        }
    }
}

fn decimal(nanoseconds: i128, unit: i128, digits: usize) -> String {
    format!("{}.{:0digits$}", nanoseconds.div_euclid(unit), nanoseconds.rem_euclid(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_log_json_in_clusters_unless_a_variable_says_otherwise() {
        assert_eq!(Format::of(None, false), Format::Text);
        assert_eq!(Format::of(None, true), Format::Json);
        assert_eq!(Format::of(Some("text"), true), Format::Text);
        assert_eq!(Format::of(Some("json"), false), Format::Json);
        assert_eq!(Format::of(Some(""), true), Format::Json);
        assert_eq!(Format::of(Some("xml"), true), Format::Json);
        assert_eq!(["text", "json", "", "xml", "JSON"].map(is_format), [true, true, true, false, false]);
    }

    #[test]
    fn a_level_alone_leaves_libraries_at_info() {
        let texts = ["debug", "TRACE", "warn", "debug,h2=trace", "longboat_epp=debug"];
        let expected =
            ["info,longboat=debug", "info,longboat=trace", "warn", "debug,h2=trace", "longboat_epp=debug"];
        assert_eq!(texts.map(directives), expected);
    }

    #[test]
    fn a_word_that_is_no_level_is_no_filter() {
        for text in ["info", "OFF", "longboat_epp", "longboat::gateway", "info,h2=debug", "h2=trace"] {
            assert!(is_filter(text), "{text}");
        }
        for text in ["verbose", "warning", "debg", "info,h2=loud"] {
            assert!(!is_filter(text), "{text}");
        }
    }

    #[test]
    fn times_are_written_as_asked() {
        let at = Timestamp::new(1_000_000_000, 20_300_400).unwrap();
        for (time, expected) in [
            (Time::Usual, "2001-09-09T01:46:40.020300Z"),
            (Time::Epoch, "1000000000.020300400"),
            (Time::Millis, "1000000000020.300400"),
            (Time::Nano, "1000000000020300400"),
            (Time::Iso8601, "2001-09-09T01:46:40.020Z"),
            (Time::Rfc3339, "2001-09-09T01:46:40Z"),
            (Time::Rfc3339Nano, "2001-09-09T01:46:40.020300400Z"),
        ] {
            assert_eq!(time.print(at), expected, "{time:?}");
        }
    }
}
