//! The sidecar between its client and engines: simulators that do what engines do, and peers that do not.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod connectors;
mod hostile;
mod legs;
mod peer;
mod world;
