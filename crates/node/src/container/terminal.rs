//! A pseudo-terminal: the node has the master side, the process has the slave side.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The master side.
#[derive(Debug)]
pub(super) struct Terminal(AsyncFd<OwnedFd>);

/// Reads what the process writes.
#[derive(Debug)]
pub(super) struct Reader(Arc<Terminal>);

/// Writes what the process reads.
#[derive(Debug)]
pub(super) struct Writer(Arc<Terminal>);

impl Terminal {
    /// Opens a terminal. Returns the master side and the slave side.
    pub(super) fn open() -> io::Result<(Self, OwnedFd)> {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let name = ptsname(&near, Vec::new())?;
        let far = rustix::fs::open(
            name.as_c_str(),
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        // `AsyncFd` needs a descriptor that does not block.
        rustix::io::ioctl_fionbio(&near, true)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe code, for descriptors that may change; an owned one does not"
        )]
        let near = AsyncFd::new(near)?;
        Ok((Self(near), far))
    }

    pub(super) fn reader(self: &Arc<Self>) -> Reader {
        Reader(Arc::clone(self))
    }

    pub(super) fn writer(self: &Arc<Self>) -> Writer {
        Writer(Arc::clone(self))
    }

    /// Changes its size: columns and rows.
    pub(super) fn resize(&self, (columns, rows): (u16, u16)) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        if let Err(error) = tcsetwinsize(self.0.get_ref(), size) {
            tracing::debug!(%error, "Cannot resize a terminal.");
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.0.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            match ready.try_io(|fd| rustix::io::read(fd.get_ref(), &mut *unfilled).map_err(io::Error::from)) {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // A closed slave side reads as this error: the terminal has ended.
                Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.0.poll_write_ready(context))?;
            let write =
                |fd: &AsyncFd<OwnedFd>| rustix::io::write(fd.get_ref(), bytes).map_err(io::Error::from);
            if let Ok(written) = ready.try_io(write) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    // A terminal has no end of input but the byte of Ctrl-D, which the client sends.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
