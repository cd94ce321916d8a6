//! The controller against the embedded API server: what it makes, how it fails, and that it comes to rest.

mod configs;
mod crash;
mod lifecycle;
mod optional;
mod rest;
mod setup;
