//! The sidecar between its client and its engines: simulators that behave like engines, and peers that break the protocol.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod connectors;
mod fixture;
mod hostile;
mod legs;
mod peer;
