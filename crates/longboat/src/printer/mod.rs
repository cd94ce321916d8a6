//! The only module that writes to stdout and stderr.
//!
//! At the bottom of a terminal there may be a picture, which is redrawn when it changes. Other output goes above it.

mod picture;
mod table;
mod visible;

use std::{
    fmt::{Display, Write as _},
    io::{self, IsTerminal, Write},
};

use anyhow::Context;
use longboat_controller::reader;
use owo_colors::OwoColorize;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;

use self::picture::Picture;
pub(crate) use self::{
    picture::{Row, Size},
    table::aligned,
    visible::one_line,
};
use crate::cli::output::OutputFormat;

/// The picture at the bottom of the terminal.
static PICTURE: Mutex<Option<(Stream, Picture)>> = Mutex::new(None);

/// The first data that could not be written to stdout, as to a full disk.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes one line for the user to stdout.
pub(crate) fn line(text: &str) {
    print_above_picture(|| _ = write_piece(&format!("{}\n", visible::styled(text))));
}

/// Writes lines for the user to stdout.
pub(crate) fn lines(text: &str) {
    write_piece(&visible::styled(text));
}

/// Writes a piece of a model's answer to stdout: as it is for a program, and without codes for a terminal. Returns whether the reader is
/// still there.
pub(crate) fn answer(text: &str) -> bool {
    if io::stdout().is_terminal() { write_piece(&visible::answer(text)) } else { write_piece(text) }
}

/// Writes a piece of data to stdout, unchanged, and flushes it. Returns whether the reader is still there.
pub(crate) fn write_piece(text: &str) -> bool {
    // anstream leaves out colours where nobody sees them.
    let mut out = anstream::stdout().lock();
    is_written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Takes the result of a write to stdout. Returns whether the data was written.
pub(crate) fn is_written(result: io::Result<()>) -> bool {
    let Err(error) = result else { return true };
    // A closed pipe is no failure: `longboat crds | head` is fine.
    if error.kind() != io::ErrorKind::BrokenPipe {
        LOST.lock().get_or_insert(error);
    }
    false
}

/// Checks at the end that no data was lost.
///
/// # Errors
///
/// If stdout did not take all data.
pub(crate) fn check() -> anyhow::Result<()> {
    LOST.lock().take().map_or(Ok(()), Err).context("cannot write to standard output")
}

/// Writes data as a JSON or YAML document to stdout.
///
/// # Errors
///
/// If the value cannot be written in that format.
pub(crate) fn data(value: &impl Serialize, format: OutputFormat) -> anyhow::Result<()> {
    match format {
        OutputFormat::Yaml => _ = write_piece(&serde_saphyr::to_string(value)?),
        OutputFormat::Json | OutputFormat::Text => {
            _ = write_piece(&format!("{}\n", serde_json::to_string_pretty(value)?));
        }
    }
    Ok(())
}

/// Writes a text, or the value that it describes as a JSON or YAML document, to stdout.
///
/// # Errors
///
/// If the value cannot be written in that format.
pub(crate) fn output(
    value: &impl Serialize,
    format: OutputFormat,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if format != OutputFormat::Text {
        return data(value, format);
    }
    lines(&text());
    Ok(())
}

/// Writes objects as a JSON list, as `kubectl get -o json` does.
pub(crate) fn list(items: &impl Serialize) -> anyhow::Result<()> {
    data(&json!({"apiVersion": "v1", "kind": "List", "items": items}), OutputFormat::Json)
}

/// Writes one line for the user to stderr, after a word in bold.
pub(crate) fn labelled(label: &str, text: impl Display) {
    note(&format!("{} {text}", label.bold()));
}

/// Writes one line for the user to stderr.
pub(crate) fn note(text: &str) {
    unchanged(&visible::styled(text));
}

fn unchanged(text: &str) {
    print_above_picture(|| {
        let mut out = anstream::stderr().lock();
        let _ = writeln!(out, "{text}");
    });
}

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Data.
    Stdout,
    /// Messages for the user.
    Stderr,
}

/// Draws rows over the previous picture, clipped to the terminal's size.
pub(crate) fn draw(to: Stream, rows: Vec<Row>) {
    let mut drawn = PICTURE.lock();
    let size = size(to);
    let before = drawn.take().map(|(_, picture)| picture);
    let picture = Picture::new(rows, size);
    write(to, &picture.over(before.as_ref(), size));
    *drawn = Some((to, picture));
}

/// Removes the picture.
pub(crate) fn erase() {
    if let Some((to, picture)) = PICTURE.lock().take() {
        write(to, &picture.erased(size(to)));
    }
}

/// Keeps the picture as it is: later output goes below it.
pub(crate) fn leave() {
    *PICTURE.lock() = None;
}

/// Prints above the picture, if there is one.
fn print_above_picture(print: impl FnOnce()) {
    // Held until the picture is back: a redraw by another task in between would leave its rows above the line.
    let mut drawn = PICTURE.lock();
    let Some((to, picture)) = drawn.take() else { return print() };
    let size = size(to);
    write(to, &picture.erased(size));
    print();
    let again = picture.resized(size);
    write(to, &again.over(None, size));
    *drawn = Some((to, again));
}

/// Writes text unchanged, for drawing.
pub(crate) fn write(to: Stream, text: &str) {
    match to {
        Stream::Stdout => _ = write_piece(text),
        Stream::Stderr => {
            let mut out = anstream::stderr().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// A line of a log, which is written to stderr at once.
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
        let text = text.trim_end_matches('\n');
        if text.is_empty() {
            return;
        }
        // A line may be JSON for a program.
        if io::stderr().is_terminal() { note(text) } else { unchanged(text) }
    }
}

/// Reports an error with its causes and a hint.
pub(crate) fn error(error: &anyhow::Error, hint: Option<&str>) {
    note(&format_error(error, hint));
}

fn format_error(error: &anyhow::Error, hint: Option<&str>) -> String {
    let mut causes = causes(error).into_iter();
    let mut text = format!("{} {}", "error:".red().bold(), causes.next().unwrap_or_default());
    for cause in causes {
        // Some messages already contain their cause.
        if !text.contains(&cause) {
            let _ = write!(text, "\n  {} {cause}", "caused by:".red());
        }
    }
    if let Some(hint) = hint {
        let _ = write!(text, "\n\n{} {hint}", "hint:".cyan().bold());
    }
    text
}

/// Returns the messages of an error and its causes. An error of kube is shortened: its own text repeats all fields of the
/// server's answer, and so do its causes.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut all = Vec::new();
    for cause in error.chain() {
        let boxed = || cause.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
        if let Some(error) = cause.downcast_ref::<kube::Error>().or_else(boxed) {
            all.push(visible::message(&reader::sentence(error)).into_owned());
            break;
        }
        all.push(visible::message(&cause.to_string()).into_owned());
    }
    all
}

/// Whether a stream is a terminal on which pictures can be drawn. Without colours, the codes that move the cursor are
/// stripped, too, so changes are printed as lines instead.
pub(crate) fn is_terminal(stream: Stream) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let terminal = match stream {
        Stream::Stdout => io::stdout().is_terminal(),
        Stream::Stderr => io::stderr().is_terminal(),
    };
    terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the size of a stream's terminal.
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
        let plain =
            |error: anyhow::Error| anstream::adapter::strip_str(&format_error(&error, None)).to_string();
        assert_eq!(plain(answer().into()), "error: pods is forbidden");
        let expected = "error: cannot look\n  caused by: pods is forbidden";
        assert_eq!(plain(anyhow::Error::new(answer()).context("cannot look")), expected);
        assert_eq!(plain(anyhow::Error::new(Box::new(answer())).context("cannot look")), expected);
        assert_eq!(
            plain(anyhow::anyhow!("no \u{1b}[2J\u{1b}[31mname")),
            r"error: no \u{1b}[2J\u{1b}[31mname"
        );
    }
}
