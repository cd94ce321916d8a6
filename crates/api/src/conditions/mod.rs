//! The conditions of a service.

mod condition;
mod engine;
mod rollup;
mod table;

pub use condition::{Condition, ConditionStatus, Severity};
pub use engine::{Conditions, set_transition_times};
pub use rollup::{GATED, GATED_DISAGGREGATED, SERVICE};
pub use table::{ALL, Row, WhenStopped, types};
