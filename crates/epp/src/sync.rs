//! The types that threads share, for code that a model checker compiles too.

pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

pub(crate) use parking_lot::Mutex;
