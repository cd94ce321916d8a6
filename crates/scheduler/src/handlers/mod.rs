//! Profile handlers decide which profiles run, and how their results are combined.

pub(crate) mod data_parallel;
pub(crate) mod disagg;
pub(crate) mod header_profile;
pub(crate) mod pd;
pub(crate) mod single;
