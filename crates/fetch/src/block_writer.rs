//! Writes the bytes of one connection in blocks. While one block is written, the next one arrives.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{FetchError, target::Target, writer::FileWriter};

/// A block is written as soon as it has this many bytes. Each block is one record in the journal, and costs two switches of
/// threads; after a kill, the blocks that are not yet written are fetched again.
const MIN_BLOCK: usize = 512 << 10;
/// Smaller chunks are copied. A chunk that is kept also keeps the buffer that it is a part of, so a server that sends many tiny
/// chunks would fill the memory.
const MIN_KEPT_CHUNK: usize = 256 << 10;

/// The blocks of one connection.
pub(crate) struct BlockWriter<'a> {
    target: &'a Target,
    writer: &'a Arc<FileWriter>,
    /// Where the next block begins in the file.
    start: u64,
    /// The byte after the last one of the part, if it is known.
    end: Option<u64>,
    /// The bytes of the next block. Large chunks stay as the HTTP client received them, because a copy would cost a tenth of
    /// the download.
    chunks: Vec<Bytes>,
    /// Small chunks that follow.
    tail: BytesMut,
    length: usize,
    /// The block that is being written. There is at most one, so a slow disk slows down the connection.
    in_flight: Option<JoinHandle<io::Result<Vec<Bytes>>>>,
}

// === impl BlockWriter ===

impl<'a> BlockWriter<'a> {
    pub(crate) fn new(target: &'a Target, writer: &'a Arc<FileWriter>, start: u64, end: Option<u64>) -> Self {
        let (chunks, tail) = (Vec::new(), BytesMut::new());
        Self { target, writer, start, end, chunks, tail, length: 0, in_flight: None }
    }

    /// The number of bytes that the part still lacks.
    pub(crate) fn room(&self) -> usize {
        let room = self.end.map(|end| end.saturating_sub(self.start + self.length as u64));
        room.map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX))
    }

    pub(crate) async fn push(&mut self, chunk: Bytes) -> Result<(), FetchError> {
        let length = chunk.len();
        if length < MIN_KEPT_CHUNK {
            if self.tail.is_empty() {
                self.tail.reserve(self.room().min(MIN_BLOCK).max(length));
            }
            self.tail.extend_from_slice(&chunk);
        } else {
            self.end_tail();
            self.chunks.push(chunk);
        }
        self.length += length;
        if self.length >= MIN_BLOCK { self.write().await } else { Ok(()) }
    }

    /// Writes what is left, and returns the byte after the last one.
    pub(crate) async fn finish(mut self) -> Result<u64, FetchError> {
        if self.length > 0 {
            self.write().await?;
        }
        self.written().await?;
        Ok(self.start)
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push(self.tail.split().freeze());
        }
    }

    async fn write(&mut self) -> Result<(), FetchError> {
        self.written().await?;
        self.end_tail();
        let (start, chunks) = (self.start, std::mem::take(&mut self.chunks));
        self.start += std::mem::take(&mut self.length) as u64;
        let writer = self.writer.clone();
        self.in_flight = Some(spawn_blocking(move || {
            writer.write(start, &chunks)?;
            // The chunks go back to the thread that allocated them. Freed elsewhere, they would stay in the allocator's lists.
            Ok(chunks)
        }));
        Ok(())
    }

    /// Waits until the block in flight is written.
    async fn written(&mut self) -> Result<(), FetchError> {
        let Some(task) = self.in_flight.take() else { return Ok(()) };
        let written = task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let path = || self.target.path().join(&*self.writer.path);
        written.map_err(|error| FetchError::file("write", path())(error))?;
        self.writer.check_end(self.target)
    }
}
