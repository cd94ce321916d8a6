//! The only place that writes to stdout and stderr.
//!
//! At the bottom of a terminal there may be a picture, which is drawn over when it changes; everything else that is printed
//! meanwhile goes above it.

mod picture;

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use longboat_controller::reader;
use owo_colors::OwoColorize;
use parking_lot::Mutex;
use serde::Serialize;

use self::picture::Picture;
pub(crate) use self::picture::{Row, Size};
use crate::cli::Shown;

/// What is drawn at the bottom of the terminal.
static PICTURE: Mutex<Option<(Stream, Picture)>> = Mutex::new(None);

/// Writes one line of data to stdout. A reader that has gone is no error: `longboat crds | head` is fine.
pub(crate) fn line(text: &str) {
    above(|| {
        let mut out = anstream::stdout().lock();
        let _ = writeln!(out, "{text}");
    });
}

/// Writes a piece of data to stdout at once. Returns whether anybody still reads.
pub(crate) fn piece(text: &str) -> bool {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Writes data as a JSON or YAML document to stdout.
///
/// # Errors
/// Where it cannot be written in that format.
pub(crate) fn data(value: &impl Serialize, format: Shown) -> anyhow::Result<()> {
    match format {
        Shown::Yaml => _ = piece(&serde_saphyr::to_string(value)?),
        Shown::Json | Shown::Text => line(&serde_json::to_string_pretty(value)?),
    }
    Ok(())
}

/// Writes one line for the person to stderr.
pub(crate) fn note(text: &str) {
    above(|| {
        let mut out = anstream::stderr().lock();
        let _ = writeln!(out, "{text}");
    });
}

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Data.
    Stdout,
    /// What is for the person only.
    Stderr,
}

/// Draws rows over those that were drawn before, at most as many and as long as the terminal has room for.
pub(crate) fn draw(to: Stream, rows: Vec<Row>) {
    let mut drawn = PICTURE.lock();
    let size = size(to);
    let before = drawn.take().map(|(_, picture)| picture);
    let picture = Picture::new(rows, size);
    write(to, &picture.over(before.as_ref(), size));
    *drawn = Some((to, picture));
}

/// Takes the picture away.
pub(crate) fn erase() {
    if let Some((to, picture)) = PICTURE.lock().take() {
        write(to, &picture.erased(size(to)));
    }
}

/// Leaves the picture as it is: what follows comes below.
pub(crate) fn leave() {
    *PICTURE.lock() = None;
}

/// Prints above the picture, if there is one.
fn above(print: impl FnOnce()) {
    let mut drawn = PICTURE.lock();
    let Some((to, picture)) = drawn.take() else { return print() };
    let size = size(to);
    write(to, &picture.erased(size));
    print();
    let again = picture.again(size);
    write(to, &again.over(None, size));
    *drawn = Some((to, again));
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

/// A line of a log, which goes to stderr as a whole.
#[derive(Debug, Default)]
pub(crate) struct LogLine(Vec<u8>);

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.0);
        if !text.is_empty() {
            note(text.trim_end_matches('\n'));
        }
    }
}

/// Reports what went wrong, cause by cause, and what may help.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    note(&told(error, hint));
}

fn told(error: &anyhow::Error, hint: Option<&str>) -> String {
    let mut causes = causes(error).into_iter();
    let mut text = format!("{} {}", "error:".red().bold(), causes.next().unwrap_or_default());
    for cause in causes {
        // Some messages contain their cause already.
        if !text.contains(&cause) {
            let _ = write!(text, "\n  {} {cause}", "caused by:".red());
        }
    }
    if let Some(hint) = hint {
        let _ = write!(text, "\n\n{} {hint}", "hint:".cyan().bold());
    }
    text
}

/// The error and its causes in words. What kube prints of an answer repeats all its fields, and so do its causes.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut all = Vec::new();
    for cause in error.chain() {
        let boxed = || cause.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
        if let Some(error) = cause.downcast_ref::<kube::Error>().or_else(boxed) {
            all.push(reader::sentence(error));
            break;
        }
        all.push(cause.to_string());
    }
    all
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

/// How large the terminal behind a stream is.
pub(crate) fn size(stream: Stream) -> Size {
    let found = match stream {
        Stream::Stdout => rustix::termios::tcgetwinsize(io::stdout()),
        Stream::Stderr => rustix::termios::tcgetwinsize(io::stderr()),
    };
    let (columns, rows) = found.map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
    Size::new(columns, rows)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_an_api_server_answered_is_told_in_its_own_words() {
        let answer =
            || kube::Error::Api(Status::failure("pods is forbidden", "Forbidden").with_code(403).boxed());
        let plain = |error: anyhow::Error| anstream::adapter::strip_str(&told(&error, None)).to_string();
        assert_eq!(plain(answer().into()), "error: pods is forbidden");
        let expected = "error: cannot look\n  caused by: pods is forbidden";
        assert_eq!(plain(anyhow::Error::new(answer()).context("cannot look")), expected);
        assert_eq!(plain(anyhow::Error::new(Box::new(answer())).context("cannot look")), expected);
    }
}
