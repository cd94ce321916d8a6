//! Flags of controller-runtime's logger, zap.

use std::{io::IsTerminal, str::FromStr};

use crate::logging::{Format, LogOptions, Time};

/// Targets of libraries whose debug messages are about bytes instead of services.
const QUIET: &str = "hyper=info,hyper_util=info,h2=info,rustls=info,tower=info,kube_client=info";

/// Settings of logging.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct Zap {
    /// Log as text and in more detail, like --zap-encoder=console --zap-log-level=debug.
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub zap_devel: bool,

    /// Log format: text (console), or one JSON object per line (json). Default: text on a terminal, else JSON.
    #[arg(long, value_name = "json|console", value_parser = encoder)]
    pub zap_encoder: Option<Format>,

    /// Log level: debug, info, error, panic, or a number above 0 for details; 5 and more includes libraries. Overrides the
    /// environment variable `LONGBOAT_LOG`.
    #[arg(long, value_name = "LEVEL")]
    pub zap_log_level: Option<Level>,

    /// Accepted without effect: there are no stack traces.
    #[arg(long, value_name = "info|error|panic")]
    pub zap_stacktrace_level: Option<Level>,

    /// Format of times: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano.
    #[arg(long, value_name = "FORM")]
    pub zap_time_encoding: Option<Time>,
}

/// The level of logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Details: zap's levels above 0. Higher numbers mean more details.
    Detail(u8),
    /// Information for operators.
    Info,
    /// Warnings.
    Warn,
    /// Errors.
    Error,
}

/// The error for a flag's value that zap does not know either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Unknown(&'static str);

// === impl Zap ===

impl Zap {
    /// Returns the logging options.
    pub fn options(&self) -> LogOptions {
        let people = self.zap_devel || std::io::stderr().is_terminal();
        let format = self.zap_encoder.unwrap_or(if people { Format::Text } else { Format::Json });
        let level = self.zap_log_level.or(self.zap_devel.then_some(Level::Detail(1)));
        LogOptions {
            format,
            filter: level.map(Level::filter),
            default_filter: Level::Info.filter(),
            time: self.zap_time_encoding.unwrap_or_default(),
        }
    }
}

// === impl Level ===

impl Level {
    fn filter(self) -> String {
        match self {
            Self::Detail(5..) => "debug".to_owned(),
            Self::Detail(_) => format!("debug,{QUIET}"),
            Self::Info => "info".to_owned(),
            Self::Warn => "warn".to_owned(),
            Self::Error => "error".to_owned(),
        }
    }
}

impl FromStr for Level {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "debug" => Ok(Self::Detail(1)),
            "info" => Ok(Self::Info),
            "warn" => Ok(Self::Warn),
            // The process logs a panic as an error.
            "error" | "panic" => Ok(Self::Error),
            number => match number.parse() {
                Ok(detail @ 1..) => Ok(Self::Detail(detail)),
                _ => Err(Unknown("debug, info, warn, error, panic or a number from 1 to 255")),
            },
        }
    }
}

/// Reads the name of a format.
fn encoder(text: &str) -> Result<Format, Unknown> {
    match text {
        "json" => Ok(Format::Json),
        "console" => Ok(Format::Text),
        _ => Err(Unknown("json or console")),
    }
}

// === impl Time ===

impl FromStr for Time {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "epoch" => Ok(Self::Epoch),
            "millis" => Ok(Self::Millis),
            "nano" => Ok(Self::Nano),
            "iso8601" => Ok(Self::Iso8601),
            "rfc3339" => Ok(Self::Rfc3339),
            "rfc3339nano" => Ok(Self::Rfc3339Nano),
            _ => Err(Unknown("epoch, millis, nano, iso8601, rfc3339 or rfc3339nano")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        zap: Zap,
    }

    fn options(flags: &[&str]) -> LogOptions {
        let line = std::iter::once("controller").chain(flags.iter().copied());
        Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).zap.options()
    }

    #[test]
    fn flags_of_zap_choose_form_and_level() {
        let devel = options(&["--zap-devel"]);
        assert_eq!((devel.format, devel.filter), (Format::Text, Some(format!("debug,{QUIET}"))));
        let json = options(&["--zap-devel", "--zap-encoder=json", "--zap-log-level=error"]);
        assert_eq!((json.format, json.filter.as_deref()), (Format::Json, Some("error")));
        let console = options(&["--zap-encoder", "console", "--zap-stacktrace-level=panic"]);
        assert_eq!((console.format, console.filter), (Format::Text, None));
        assert_eq!(options(&["--zap-log-level=5"]).filter.as_deref(), Some("debug"));
        assert_eq!(options(&["--zap-time-encoding=rfc3339nano"]).time, Time::Rfc3339Nano);
    }

    #[test]
    fn values_that_zap_does_not_know_are_refused() {
        for flag in [
            "--zap-encoder=xml",
            "--zap-log-level=0",
            "--zap-log-level=loud",
            "--zap-time-encoding=stardate",
            "--zap-devel=maybe",
        ] {
            assert!(Line::try_parse_from(["controller", flag]).is_err(), "{flag}");
        }
    }
}
