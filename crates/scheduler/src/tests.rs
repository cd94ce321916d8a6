//! Configurations, and picks from them.

mod config;
mod herding;
mod picks;
mod plugins;
mod precise;
