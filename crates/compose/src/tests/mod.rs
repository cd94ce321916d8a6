//! Comparison with recordings of the reference, and laws.

mod advice;
mod cases;
mod images;
mod kv_cache;
mod laws;
mod merged;
mod operator;
mod ours;
mod picker_config;
mod platform;
mod recordings;
mod replay;
mod runtime;
mod scripts;
mod security;
