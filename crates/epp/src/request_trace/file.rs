//! The file of a trace: lines are appended, and a file that is full, or of a former run, becomes `FILE.1`.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
};

use serde::Serialize;
use tokio::time::Instant;

use super::TraceLine;

/// How many former files are kept. Each change of the picker's configuration restarts it, and begins a new file.
const FORMER_FILES: u8 = 4;

/// A file of at most this many bytes, and the files before it.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    max_bytes: usize,
    open: Option<OpenFile>,
    requests: u64,
    failed: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    bytes: usize,
    /// The arrival of its first request: each file is a trace of its own, from 0 on.
    start: Instant,
}

/// The fields that `longboat simulate --trace` reads.
#[derive(Debug, Serialize)]
struct Fields<'a> {
    at_ms: f64,
    #[serde(skip_serializing_if = "<[u64]>::is_empty")]
    hash_ids: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    block_tokens: Option<u64>,
    prompt_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

// === impl TraceFile ===

impl TraceFile {
    /// The file is created with the first request.
    pub(crate) fn new(path: PathBuf, max_bytes: usize) -> Self {
        Self { path, max_bytes, open: None, requests: 0, failed: 0 }
    }

    /// Appends lines. If that fails, the trace lacks them.
    pub(super) fn append(&mut self, lines: &[TraceLine]) {
        for line in lines {
            match self.line(line) {
                Ok(()) => self.requests += 1,
                Err(error) => {
                    if self.failed == 0 {
                        let path = self.path.display();
                        tracing::warn!(%error, %path, "Cannot write the trace of requests; it lacks some.");
                    }
                    self.failed += 1;
                    // The rest of a line may be missing, so the next line begins a new file.
                    self.open = None;
                }
            }
        }
    }

    pub(super) fn finish(self, left_out: u64) {
        let (requests, left_out) = (self.requests, left_out + self.failed);
        tracing::info!(path = %self.path.display(), requests, left_out, "The trace of requests is complete.");
    }

    fn line(&mut self, line: &TraceLine) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.create(line.at)?,
        };
        let mut text = line.text(open.start)?;
        if open.bytes > 0 && open.bytes + text.len() > self.max_bytes {
            open = self.create(line.at)?;
            text = line.text(open.start)?;
        }
        open.file.write_all(&text)?;
        open.bytes += text.len();
        self.open = Some(open);
        Ok(())
    }

    /// Returns the path of a former file; 0 is the one that is written.
    fn former(&self, number: u8) -> PathBuf {
        let mut path = OsString::from(&self.path);
        if number > 0 {
            path.push(format!(".{number}"));
        }
        path.into()
    }

    /// Renames the files that are there, and creates a new one. Only its owner may read it: it tells who asked when.
    fn create(&self, start: Instant) -> io::Result<OpenFile> {
        for number in (0..FORMER_FILES).rev() {
            match std::fs::rename(self.former(number), self.former(number + 1)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // `create_new` follows no symbolic link that somebody else has put there.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        Ok(OpenFile { file, bytes: 0, start })
    }
}

// === impl TraceLine ===

impl TraceLine {
    fn text(&self, start: Instant) -> io::Result<Vec<u8>> {
        let micros = self.at.saturating_duration_since(start).as_micros();
        #[expect(clippy::cast_precision_loss, reason = "microseconds of centuries are exact")]
        let at_ms = micros as f64 / 1000.0;
        let model = self.model.as_str();
        let fields = Fields {
            at_ms,
            hash_ids: &self.hash_ids,
            block_tokens: (!self.hash_ids.is_empty()).then_some(self.block_tokens),
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            model: if self.is_adapter { "" } else { model },
            adapter: self.is_adapter.then_some(model),
            priority: self.priority,
            session: self.session.map(|session| format!("{session:x}")),
        };
        let mut text = serde_json::to_vec(&fields)?;
        text.push(b'\n');
        Ok(text)
    }
}
