//! What a proof says of a service.

use longboat_api::conditions::{ConditionStatus, Conditions};

use super::ATTEMPTS;

/// The status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

// === impl Verdict ===

impl Verdict {
    pub(super) fn yes(reason: &'static str, message: String) -> Self {
        Self { status: ConditionStatus::True, reason, message }
    }

    pub(super) fn no(reason: &'static str, message: String) -> Self {
        Self { status: ConditionStatus::False, reason, message }
    }

    pub(super) fn unknown(reason: &'static str, message: String) -> Self {
        Self { status: ConditionStatus::Unknown, reason, message }
    }

    /// Whether the proof succeeded.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// The reason of the condition.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The message of the condition.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds the number of attempts to a verdict that is not True.
    pub(super) fn with_attempt(&self, attempt: u32) -> Self {
        let mut verdict = self.clone();
        if !verdict.is_true() {
            let then = if attempt < ATTEMPTS {
                "the controller retries it"
            } else {
                "a change of pods or routes starts another attempt"
            };
            verdict.message = format!("{} (attempt {attempt} of {ATTEMPTS}; {then})", verdict.message);
        }
        verdict
    }

    /// Sets a condition to it.
    pub(super) fn set(&self, type_: &str, conditions: &mut Conditions) {
        set(type_, self.status, self.reason, &self.message, conditions);
    }
}

/// Sets a condition.
pub(super) fn set(
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    conditions: &mut Conditions,
) {
    match status {
        ConditionStatus::True => conditions.mark_true_with_reason(type_, reason, message),
        ConditionStatus::False => conditions.mark_false(type_, reason, message),
        ConditionStatus::Unknown => conditions.mark_unknown(type_, reason, message),
    }
}
