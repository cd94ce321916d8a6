//! Comparison with recordings of the reference, and laws.

mod cases;
mod laws;
mod operator;
mod ours;
mod platform;
mod recordings;
mod scripts;
