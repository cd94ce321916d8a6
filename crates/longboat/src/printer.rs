//! The only place that writes to stdout and stderr.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use owo_colors::OwoColorize;

/// Writes one line of data to stdout. A reader that has gone is no error: `longboat crds | head` is fine.
pub(crate) fn line(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = writeln!(out, "{text}");
}

/// Writes a piece of data to stdout at once. Returns whether anybody still reads.
pub(crate) fn piece(text: &str) -> bool {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Writes one line for the person to stderr.
pub(crate) fn note(text: &str) {
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{text}");
}

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Data.
    Stdout,
    /// What is for the person only.
    Stderr,
}

/// Writes text as it is, for drawing.
pub(crate) fn write(to: Stream, text: &str) {
    match to {
        Stream::Stdout => _ = piece(text),
        Stream::Stderr => {
            let mut out = anstream::stderr().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// Reports what went wrong, cause by cause, and what may help.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    let mut text = format!("{} {error}", "error:".red().bold());
    for cause in error.chain().skip(1) {
        // Some messages contain their cause already.
        if !text.contains(&cause.to_string()) {
            let _ = write!(text, "\n  {} {cause}", "caused by:".red());
        }
    }
    if let Some(hint) = hint {
        let _ = write!(text, "\n\n{} {hint}", "hint:".cyan().bold());
    }
    note(&text);
}

/// Whether a stream is a terminal that can be drawn on. Without colours the codes that move the cursor are stripped too, so
/// lines of news are shown instead.
pub(crate) fn is_terminal(stream: Stream) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let terminal = match stream {
        Stream::Stdout => io::stdout().is_terminal(),
        Stream::Stderr => io::stderr().is_terminal(),
    };
    terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// Width of the terminal in columns; 100 where it is not known.
pub(crate) fn width() -> usize {
    rustix::termios::tcgetwinsize(io::stderr()).map_or(100, |size| usize::from(size.ws_col).max(20))
}
