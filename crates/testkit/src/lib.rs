//! For tests only: a running world, golden cases and oracles.
