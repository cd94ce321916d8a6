//! Tests of the wire format against Envoy's own definitions, and of exchanges over real sockets.

mod corpus;
mod hostile;
mod socket;
mod wire;
