//! The wire against Envoy's own definitions, and exchanges over real sockets.

mod socket;
mod wire;
