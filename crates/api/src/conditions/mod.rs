//! The conditions of a service.

mod condition;
mod engine;
mod rollup;
mod table;

pub use condition::{Condition, ConditionStatus, Severity};
pub use engine::{Conditions, groom};
pub use rollup::{GATED, GATED_DISAGGREGATED, ROUTER, Rollup, SERVICE, WORKLOADS};
pub use table::{ALL, Row, WhenStopped, types};
