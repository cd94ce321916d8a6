//! The replicas of a workload.

/// The replicas of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// The desired number.
    pub desired: i32,
    /// The current number.
    pub current: i32,
    /// The number of ready ones.
    pub ready: i32,
}
