//! The sources of endpoints, and the Kubernetes objects that say how their requests are handled.

pub(crate) mod both_groups;
pub(crate) mod file;
pub(crate) mod kubernetes;
pub(crate) mod objectives;
pub(crate) mod rewrites;
