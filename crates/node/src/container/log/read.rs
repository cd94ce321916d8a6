//! Reading of a log while it may still grow.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use longboat_apiserver::pod_access::{LogOptions, LogStream};
use tokio::sync::watch;

use super::{ContainerLog, Record, current, rotated};
use crate::private;

/// The bytes to read at once, which is also about the memory that one reader needs.
const CHUNK_BYTES: usize = 16 * 1024;

/// Opens the log of an instance of the container, which the restart count identifies.
pub(crate) fn open(log: &ContainerLog, instance: u32, options: &LogOptions) -> io::Result<LogStream> {
    let reader = Reader::open(log, instance, options)?;
    Ok(stream::unfold(reader, |mut reader| async move {
        let next = reader.next().await.transpose()?;
        Some((next, reader))
    })
    .boxed())
}

/// Counts the lines of all files, then rewinds the files.
fn count_lines(files: &mut VecDeque<File>) -> io::Result<u64> {
    let mut lines = 0;
    let mut buffer = vec![0; CHUNK_BYTES];
    for file in files {
        let mut partial = Vec::new();
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            for_each_line(&mut partial, &buffer[..count], |line| {
                lines += u64::from(Record::parse(line).is_some_and(|record| record.full));
            });
        }
        file.rewind()?;
    }
    Ok(lines)
}

/// Calls `each` for every complete line of `partial` and `bytes`, and keeps the rest in `partial`.
fn for_each_line(partial: &mut Vec<u8>, bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
        if partial.is_empty() {
            each(&rest[..at]);
        } else {
            partial.extend_from_slice(&rest[..at]);
            each(partial);
            partial.clear();
        }
        rest = &rest[at + 1..];
    }
    partial.extend_from_slice(rest);
}

struct Reader {
    log: ContainerLog,
    instance: u32,
    rotations: u64,
    files: VecDeque<File>,
    partial: Vec<u8>,
    /// The lines to skip before the first line that is sent.
    skip: u64,
    since: Option<Timestamp>,
    timestamps: bool,
    /// Whether the next record starts a line.
    line_start: bool,
    remaining: Option<u64>,
    follow: bool,
    changes: watch::Receiver<u64>,
}

impl Reader {
    fn open(log: &ContainerLog, instance: u32, options: &LogOptions) -> io::Result<Self> {
        let shared = &log.0;
        let changes = shared.changed.subscribe();
        // The lock prevents a rotation between opening the two files.
        let state = shared.state.lock();
        let mut files = VecDeque::new();
        for path in [rotated(&shared.dir, instance), current(&shared.dir, instance)] {
            files.extend(private::if_found(File::open(path))?);
        }
        // Under the same lock as the files: a later rotation must be seen as one.
        let rotations = state.rotations;
        drop(state);
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the log of this instance is gone"));
        }

        let skip = match options.tail_lines {
            Some(tail) => count_lines(&mut files)?.saturating_sub(tail),
            None => 0,
        };
        let since = options.since_time.or_else(|| {
            options
                .since_seconds
                .and_then(|seconds| Timestamp::now().checked_sub(SignedDuration::from_secs(seconds)).ok())
        });
        Ok(Self {
            log: log.clone(),
            instance,
            rotations,
            files,
            partial: Vec::new(),
            skip,
            since,
            timestamps: options.timestamps,
            line_start: true,
            remaining: options.limit_bytes,
            follow: options.follow,
            changes,
        })
    }

    /// Returns the next bytes to send, or `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut buffer = vec![0; CHUNK_BYTES];
        while self.remaining != Some(0) {
            // Later writes notify `changed` below.
            self.changes.mark_unchanged();
            // Before the read: otherwise what is written between the read and the close would not be read.
            let still_open = self.is_open();
            let count = match self.files.front_mut() {
                Some(file) => file.read(&mut buffer)?,
                None => 0,
            };
            if count > 0 {
                let out = self.take(&buffer[..count]);
                if !out.is_empty() {
                    return Ok(Some(out));
                }
            } else if self.files.len() > 1 {
                self.files.pop_front();
            } else if !(self.reopen_after_rotation()?
                || self.follow && still_open && self.changes.changed().await.is_ok())
            {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn is_open(&self) -> bool {
        let state = self.log.0.state.lock();
        state.open && state.instance == Some(self.instance)
    }

    /// Adds the new file if the file just read to its end was rotated.
    fn reopen_after_rotation(&mut self) -> io::Result<bool> {
        let state = self.log.0.state.lock();
        if state.instance != Some(self.instance) || state.rotations == self.rotations {
            return Ok(false);
        }
        self.rotations = state.rotations;
        // The old file is read to its end first: it may have grown between the last read and the rotation.
        self.files.push_back(File::open(current(&self.log.0.dir, self.instance))?);
        Ok(true)
    }

    /// Converts file content into the form that is sent.
    fn take(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len());
        let mut partial = std::mem::take(&mut self.partial);
        for_each_line(&mut partial, bytes, |line| {
            let Some(record) = Record::parse(line) else { return };
            if self.skip > 0 {
                self.skip -= u64::from(record.full);
                return;
            }
            if self.since.is_some_and(|since| time_of(&record).is_some_and(|time| time < since)) {
                return;
            }
            if self.timestamps && self.line_start {
                out.extend_from_slice(record.time);
                out.push(b' ');
            }
            out.extend_from_slice(record.text);
            if record.full {
                out.push(b'\n');
            }
            self.line_start = record.full;
        });
        self.partial = partial;
        if let Some(remaining) = &mut self.remaining {
            out.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= out.len() as u64;
        }
        out.into()
    }
}

fn time_of(record: &Record<'_>) -> Option<Timestamp> {
    std::str::from_utf8(record.time).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::Stream;
    use super::*;

    #[tokio::test]
    async fn lines_that_were_written_just_before_a_rotation_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let log = ContainerLog::with_limit(dir.path().to_owned(), 100);
        let writer = log.start(0).unwrap();
        let mut lines = writer.lines(Stream::Stdout);
        lines.write(b"one\n");
        let options = LogOptions { follow: true, ..LogOptions::default() };
        let mut reader = Reader::open(&log, 0, &options).unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), "one\n");
        // Between the reader's look at the end of the file and its look for a rotation.
        lines.write(b"two\n");
        lines.write(b"three\n");
        assert!(reader.reopen_after_rotation().unwrap());
        assert_eq!(reader.next().await.unwrap().unwrap(), "two\n");
        assert_eq!(reader.next().await.unwrap().unwrap(), "three\n");
    }
}
