//! Where endpoints come from, and what Kubernetes says about requests to them.

pub(crate) mod both_groups;
pub(crate) mod file;
pub(crate) mod kubernetes;
pub(crate) mod objectives;
pub(crate) mod rewrites;
