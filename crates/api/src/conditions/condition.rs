//! A single condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::types;
use crate::{
    reasons::condition::{METRIC_ANNOTATION_ERROR, SHARED_PICKER_FAILED, SHARED_PICKER_LIMITED},
    schema, wire,
};

/// One aspect of an object, and whether it holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What the condition is about, such as `Ready`.
    #[serde(rename = "type")]
    #[schemars(extend("x-required" = true))]
    pub type_: String,

    /// Whether it holds: `True`, `False` or `Unknown`.
    #[schemars(schema_with = "schema::string", extend("x-required" = true))]
    pub status: ConditionStatus,

    /// How much it matters: absent for what `Ready` depends on, `Info` for the rest.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::string")]
    pub severity: Severity,

    /// When status, reason, message or severity last changed.
    #[schemars(schema_with = "schema::string")]
    pub last_transition_time: Option<Time>,

    /// Why, in one word for programs.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub reason: String,

    /// Why, in a sentence for people.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows (yet).
    #[default]
    Unknown,
}

// === impl ConditionStatus ===

impl ConditionStatus {
    /// The status as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// How much a condition matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// `Ready` depends on it; left out on the wire.
    #[default]
    #[serde(rename = "")]
    Error,
    /// Worth a look.
    Warning,
    /// For information.
    Info,
}

// === impl Condition ===

impl Condition {
    /// Whether the status is true.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Whether the status is false.
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }

    /// Whether the condition is true and somebody should act nevertheless.
    pub fn is_true_and_needs_action(&self) -> bool {
        self.is_true()
            && match self.type_.as_str() {
                types::GROUP_DEGRADED => true,
                types::SCHEDULER_WORKLOAD_READY => {
                    [SHARED_PICKER_FAILED, SHARED_PICKER_LIMITED].contains(&self.reason.as_str())
                }
                _ => false,
            }
    }

    /// Whether the condition is false because `longboat up` does not scale as a cluster does: a service serves without it. A step in
    /// progress and a mistake in an annotation are no limits of the machine.
    pub fn is_beyond_a_laptop(&self) -> bool {
        [types::SCALING_READY, types::PREFILL_SCALING_READY].contains(&self.type_.as_str())
            && self.is_false()
            && !self.reason.ends_with("Progressing")
            && self.reason != METRIC_ANNOTATION_ERROR
    }

    /// Whether both conditions are equal except for their times.
    pub fn equals_except_times(&self, other: &Self) -> bool {
        self.type_ == other.type_
            && self.status == other.status
            && self.severity == other.severity
            && self.reason == other.reason
            && self.message == other.message
    }
}

// === impl ConditionStatus ===

impl<'de> Deserialize<'de> for ConditionStatus {
    /// Reads any value other than `True` and `False` as unknown: values that others have written must not stop a service.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<String>::deserialize(deserializer)?.as_deref() {
            Some("True") => Self::True,
            Some("False") => Self::False,
            _ => Self::Unknown,
        })
    }
}

// === impl Severity ===

impl<'de> Deserialize<'de> for Severity {
    /// Reads any value other than `Warning` and `Info` as an error.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "Warning" => Self::Warning,
            "Info" => Self::Info,
            _ => Self::Error,
        })
    }
}
