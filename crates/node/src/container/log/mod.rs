//! The log of a container: lines with time and stream, limited in size, and readable while it grows.
//!
//! The file format is that of the Container Runtime Interface: `<RFC 3339 time> <stdout|stderr> <F|P> <text>`. P marks a
//! part of a line that continues in the next record. Each instance of a container has its own file, named after its restart
//! count. The file of the previous instance is kept for `--previous`.

mod read;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use longboat_api::termination;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::private;

pub(crate) use read::open;

/// The size at which a file is rotated. The kubelet's default is also 10 MiB, but with five files; here there are two, so
/// each rotation drops the older one.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;

/// The largest record in bytes. As in container runtimes, a longer line is split into several records.
const MAX_RECORD_BYTES: usize = 16 * 1024;

/// The most lines and bytes of a termination message from the log. Kubernetes has the same numbers.
const MAX_MESSAGE_LINES: usize = 80;
const MAX_MESSAGE_BYTES: usize = 2048;

/// The last lines of a log in which the cause of an end is looked for: vLLM prints a traceback for each of its processes.
const MAX_CAUSE_LINES: usize = 500;

/// The most bytes of a cause in front of a termination message.
const MAX_CAUSE_BYTES: usize = 1024;

/// The bytes of a cause by which a termination message is known to have it.
const CAUSE_BEGINNING: usize = 128;

/// Marks the end of a line that was cut.
const TRUNCATION_MARK: &str = "…";

/// The stream that a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The logs of all instances of one container.
#[derive(Debug, Clone)]
pub(crate) struct ContainerLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    rotate_at: u64,
    state: Mutex<State>,
    /// Counts changes, to notify readers that follow the log.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    instance: Option<u32>,
    file: Option<File>,
    written: u64,
    rotations: u64,
    /// Whether the instance may still write.
    open: bool,
}

impl ContainerLog {
    /// Creates a log in the folder `dir`, which must exist.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self::with_limit(dir, MAX_FILE_BYTES)
    }

    fn with_limit(dir: PathBuf, rotate_at: u64) -> Self {
        Self(Arc::new(Shared { dir, rotate_at, state: Mutex::default(), changed: watch::Sender::new(0) }))
    }

    /// Starts the log of the instance with this restart count, and deletes the logs before the previous instance.
    pub(crate) fn start(&self, instance: u32) -> io::Result<LogWriter> {
        let file = private::create_file(&current(&self.0.dir, instance))?;
        if let Some(dropped) = instance.checked_sub(2) {
            for path in [current(&self.0.dir, dropped), rotated(&self.0.dir, dropped)] {
                // The file may not exist.
                let _ = fs::remove_file(path);
            }
        }
        *self.0.state.lock() =
            State { instance: Some(instance), file: Some(file), open: true, ..State::default() };
        self.0.notify();
        Ok(LogWriter { log: self.0.clone(), instance })
    }

    /// Returns the end of the output of the current or last instance, for a termination message: at most 80 lines and 2048
    /// bytes. A kubelet keeps the last 2048 bytes, so of a long line it keeps the end. The beginning of a line says what went
    /// wrong, so here a line that does not fit is cut at its end. If the end does not contain the cause, the message begins with it.
    pub(crate) fn tail(&self) -> String {
        let Some(instance) = self.0.state.lock().instance else { return String::new() };
        // A file that was rotated a moment ago has the lines before the end.
        let files = [rotated(&self.0.dir, instance), current(&self.0.dir, instance)];
        let mut lines = last_lines(&files, MAX_CAUSE_LINES).unwrap_or_default();
        let cause = termination::cause(&Vec::from(lines.clone()).join("\n"));
        lines.drain(..lines.len().saturating_sub(MAX_MESSAGE_LINES));
        let message = end(&lines, MAX_MESSAGE_BYTES);
        let is_told = |cause: &String| {
            // Of a long line, the message has the beginning.
            let beginning = &cause[..cause.floor_char_boundary(CAUSE_BEGINNING)];
            termination::cause(&message).as_ref() == Some(cause) || message.contains(beginning)
        };
        let Some(mut cause) = cause.filter(|cause| !is_told(cause)) else { return message };
        cut(&mut cause, MAX_CAUSE_BYTES);
        // What reads the message finds the cause as it does in the log. The mark below ends the cause: the rest may begin with an
        // indented line.
        let head =
            format!("Traceback (most recent call last):\n  {TRUNCATION_MARK}\n{cause}\n{TRUNCATION_MARK}\n");
        let rest = end(&lines, MAX_MESSAGE_BYTES - head.len());
        head + &rest
    }
}

/// Returns as many of the last lines as have at most `limit` bytes, and the beginning of the one before.
fn end(lines: &VecDeque<String>, limit: usize) -> String {
    let mut kept: VecDeque<String> = VecDeque::new();
    let mut bytes = 0;
    for line in lines.iter().rev() {
        let left = limit - bytes;
        let fits = line.len() < left;
        let mut line = line.clone();
        if !fits {
            cut(&mut line, left.saturating_sub(1));
            if line.is_empty() {
                break;
            }
        }
        line.push('\n');
        bytes += line.len();
        kept.push_front(line);
        if !fits {
            break;
        }
    }
    Vec::from(kept).concat()
}

/// Cuts a line that has more than `limit` bytes, and marks the cut.
fn cut(line: &mut String, limit: usize) {
    if line.len() > limit {
        let end = line.floor_char_boundary(limit.saturating_sub(TRUNCATION_MARK.len()));
        line.truncate(end);
        if end > 0 {
            line.push_str(TRUNCATION_MARK);
        }
    }
}

/// Returns the last lines of log files that follow each other. Of each line, only the beginning is kept that a termination message
/// can hold.
fn last_lines(files: &[PathBuf], count: usize) -> io::Result<VecDeque<String>> {
    let mut lines = VecDeque::new();
    let mut line = Vec::new();
    for file in files {
        let Some(file) = private::if_found(File::open(file))? else { continue };
        for record in BufReader::new(file).split(b'\n') {
            let record = record?;
            let Some(record) = Record::parse(&record) else { continue };
            let room = MAX_MESSAGE_BYTES.saturating_sub(line.len());
            line.extend_from_slice(&record.text[..record.text.len().min(room)]);
            if record.full {
                lines.push_back(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            }
            if lines.len() > count {
                lines.pop_front();
            }
        }
    }
    Ok(lines)
}

impl Shared {
    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn append(&self, instance: u32, bytes: &[u8]) {
        let mut state = self.state.lock();
        // A process that has left its group may still write when the next instance runs.
        if state.instance != Some(instance) || bytes.is_empty() {
            return;
        }
        if state.written > 0 && state.written + bytes.len() as u64 > self.rotate_at {
            // The file is gone if an earlier rotation could rename it, but not create its successor.
            let renamed =
                private::if_found(fs::rename(current(&self.dir, instance), rotated(&self.dir, instance)));
            match renamed.and_then(|_| private::create_file(&current(&self.dir, instance))) {
                Ok(file) => {
                    state.file = Some(file);
                    state.written = 0;
                    state.rotations += 1;
                }
                Err(error) => tracing::warn!(%error, dir = %self.dir.display(), "Cannot rotate a log."),
            }
        }
        // Under the lock: stdout and stderr are two tasks, and a rotation must not come between the parts of a record.
        if let Some(file) = &mut state.file {
            if let Err(error) = file.write_all(bytes) {
                tracing::warn!(%error, dir = %self.dir.display(), "Cannot write a log.");
            }
            state.written += bytes.len() as u64;
        }
        // The readers that are woken take the lock.
        drop(state);
        self.notify();
    }
}

fn current(dir: &Path, instance: u32) -> PathBuf {
    dir.join(format!("{instance}.log"))
}

fn rotated(dir: &Path, instance: u32) -> PathBuf {
    dir.join(format!("{instance}.log.1"))
}

/// Writes the log of one instance.
#[derive(Debug, Clone)]
pub(crate) struct LogWriter {
    log: Arc<Shared>,
    instance: u32,
}

impl LogWriter {
    /// Returns a writer for one stream, which splits its input into lines.
    pub(crate) fn lines(&self, stream: Stream) -> LineWriter {
        LineWriter { writer: self.clone(), stream, pending: Vec::new() }
    }

    /// Marks the end of the instance's log, so that readers that follow it end.
    pub(crate) fn close(&self) {
        let mut state = self.log.state.lock();
        // The next instance may have begun its log.
        if state.instance == Some(self.instance) {
            state.open = false;
            state.file = None;
        }
        drop(state);
        self.log.notify();
    }
}

/// Splits one stream into lines.
#[derive(Debug)]
pub(crate) struct LineWriter {
    writer: LogWriter,
    stream: Stream,
    pending: Vec<u8>,
}

impl LineWriter {
    pub(crate) fn write(&mut self, mut bytes: &[u8]) {
        let now = Timestamp::now();
        let mut out = Vec::with_capacity(bytes.len() + 64);
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(&bytes[..at]);
            bytes = &bytes[at + 1..];
            self.cut(&mut out, now, 0);
            record(&mut out, now, self.stream, 'F', &self.pending);
            self.pending.clear();
        }
        self.pending.extend_from_slice(bytes);
        self.cut(&mut out, now, 0);
        self.writer.log.append(self.writer.instance, &out);
    }

    /// Writes the last line if it has no newline.
    pub(crate) fn end(mut self) {
        if !self.pending.is_empty() {
            let mut out = Vec::new();
            record(&mut out, Timestamp::now(), self.stream, 'F', &self.pending);
            self.pending.clear();
            self.writer.log.append(self.writer.instance, &out);
        }
    }

    /// Writes full records of a long line, and keeps the rest.
    fn cut(&mut self, out: &mut Vec<u8>, now: Timestamp, mut from: usize) {
        while self.pending.len() - from > MAX_RECORD_BYTES {
            record(out, now, self.stream, 'P', &self.pending[from..from + MAX_RECORD_BYTES]);
            from += MAX_RECORD_BYTES;
        }
        self.pending.drain(..from);
    }
}

fn record(out: &mut Vec<u8>, now: Timestamp, stream: Stream, tag: char, text: &[u8]) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{now} {} {tag} ", stream.name());
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// One line of the file, without its newline.
#[derive(Debug)]
struct Record<'l> {
    time: &'l [u8],
    /// Whether this record ends the line.
    full: bool,
    text: &'l [u8],
}

impl<'l> Record<'l> {
    fn parse(line: &'l [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (time, _stream, tag) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { time, full: tag == b"F", text: parts.next()? })
    }
}

#[cfg(test)]
mod tests;
