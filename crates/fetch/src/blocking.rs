//! Blocking disk work.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use tokio::task::spawn_blocking;

use crate::FetchError;

/// Runs blocking disk work on a thread where it blocks no async task.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Reads a part of a file piece by piece, up to its end or that of the file. Returns the position after the last piece.
pub(crate) fn read_range(
    file: &File,
    range: Range<u64>,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]),
) -> io::Result<u64> {
    let mut at = range.start;
    while at < range.end {
        let want = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read_at(&mut buffer[..want], at)?;
        if count == 0 {
            break;
        }
        take(&buffer[..count]);
        at += count as u64;
    }
    Ok(at)
}
