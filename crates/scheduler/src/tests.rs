//! Configurations, and picks from them.

mod config;
mod picks;
mod plugins;
