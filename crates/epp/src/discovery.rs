//! Where endpoints come from.

pub(crate) mod file;
pub(crate) mod kubernetes;
pub(crate) mod objectives;
