//! Whole requests: replayed recordings, and streams over real sockets.

mod golden;
mod support;
