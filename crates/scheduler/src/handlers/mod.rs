//! Profile handlers: which profiles run, and what their results mean.

pub(crate) mod data_parallel;
pub(crate) mod disagg;
pub(crate) mod header_profile;
pub(crate) mod pd;
pub(crate) mod single;
