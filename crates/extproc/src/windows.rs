//! The sizes of flow-control windows.

/// Flow-control windows per stream and per connection. They are large enough that window updates do not delay a long prompt
/// (hundreds of kilobytes).
pub(crate) const STREAM_WINDOW: u32 = 1 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 4 << 20;
