//! Keys as people see them.

use serde::Serialize;

use super::budget::{KeyLimits, KeyUsage};

/// A key as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyReport {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// Why the Secret cannot be used.
    pub problem: Option<String>,
    /// The models that it is for; empty for all.
    pub models: Vec<String>,
    /// Its limits.
    pub limits: KeyLimits,
    /// What it has used.
    pub usage: KeyUsage,
}
