//! For tests only: a running world, golden cases and oracles.

mod faults;
mod world;

pub use faults::{Faults, faulty};
pub use world::World;
