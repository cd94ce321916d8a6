//! The `longboat` binary.
fn main() {}
