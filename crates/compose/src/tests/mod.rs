//! Comparison with recordings of the reference, and laws.

mod cases;
mod laws;
mod operator;
mod ours;
mod recordings;
mod scripts;
