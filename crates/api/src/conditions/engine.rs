//! Knative's living condition set: the condition `Ready` follows its dependents.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Condition, ConditionStatus, Severity, types::READY};

/// The conditions of an object during a reconcile.
///
/// Each change gets the given time plus one nanosecond per earlier change, so that the newest condition is the one that was
/// changed last. [`set_transition_times`] replaces these times before the status is written.
#[derive(Debug)]
pub struct Conditions<'a> {
    dependents: &'static [&'static str],
    list: &'a mut Vec<Condition>,
    now: Timestamp,
    changes: i64,
}

// === impl Conditions ===

impl<'a> Conditions<'a> {
    /// Edits `list`, where `Ready` follows `dependents`.
    pub fn new(dependents: &'static [&'static str], list: &'a mut Vec<Condition>, now: Timestamp) -> Self {
        Self { dependents, list, now, changes: 0 }
    }

    /// Returns the condition of a type, if it exists.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.list.iter().find(|c| c.type_ == type_)
    }

    /// Adds `Ready` (unknown) and its dependents if they are missing. A dependent is true if `Ready` is true, else unknown.
    pub fn initialize(&mut self) {
        if self.get(READY).is_none() {
            self.set(READY, ConditionStatus::Unknown, "", "");
        }
        let status = if self.get(READY).is_some_and(Condition::is_true) {
            ConditionStatus::True
        } else {
            ConditionStatus::Unknown
        };
        for type_ in self.dependents {
            if self.get(type_).is_none() {
                self.set(type_, status, "", "");
            }
        }
    }

    /// Sets a condition to true, and recomputes `Ready`.
    pub fn mark_true(&mut self, type_: &str) {
        self.mark_true_with_reason(type_, "", "");
    }

    /// Sets a condition to true with a reason, and recomputes `Ready`.
    pub fn mark_true_with_reason(&mut self, type_: &str, reason: &str, message: &str) {
        self.set(type_, ConditionStatus::True, reason, message);
        match self.unhappy_dependent() {
            Some(unhappy) => self.set(READY, unhappy.status, &unhappy.reason, &unhappy.message),
            None if type_ != READY => self.set(READY, ConditionStatus::True, "", ""),
            None => {}
        }
    }

    /// Sets a condition to false. `Ready` follows if it depends on the condition.
    pub fn mark_false(&mut self, type_: &str, reason: &str, message: &str) {
        self.set(type_, ConditionStatus::False, reason, message);
        if self.dependents.contains(&type_) {
            self.set(READY, ConditionStatus::False, reason, message);
        }
    }

    /// Sets a condition to false for this reason and with this message; without them, to true.
    pub fn mark(&mut self, type_: &str, objection: Option<(impl AsRef<str>, impl AsRef<str>)>) {
        match objection {
            None => self.mark_true(type_),
            Some((reason, message)) => self.mark_false(type_, reason.as_ref(), message.as_ref()),
        }
    }

    /// Sets a condition to unknown. If a dependent is false, `Ready` stays false, or becomes false with this reason.
    /// Otherwise `Ready` follows if it depends on the condition.
    pub fn mark_unknown(&mut self, type_: &str, reason: &str, message: &str) {
        self.set(type_, ConditionStatus::Unknown, reason, message);
        let any_false = self.dependents.iter().any(|d| self.get(d).is_some_and(Condition::is_false));
        if any_false {
            if !self.get(READY).is_some_and(Condition::is_false) {
                self.set(READY, ConditionStatus::False, reason, message);
            }
        } else if self.dependents.contains(&type_) {
            self.set(READY, ConditionStatus::Unknown, reason, message);
        }
    }

    /// Removes a condition, unless it is `Ready` or a dependent. Does not recompute `Ready`.
    pub fn clear(&mut self, type_: &str) {
        if type_ != READY && !self.dependents.contains(&type_) {
            self.list.retain(|c| c.type_ != type_);
        }
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let severity =
            if type_ == READY || self.dependents.contains(&type_) { Severity::Error } else { Severity::Info };
        let mut condition = Condition {
            type_: type_.to_owned(),
            status,
            severity,
            last_transition_time: None,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let place = self.list.iter().position(|c| c.type_ == type_);
        if place.is_some_and(|i| self.list[i].equals_except_times(&condition)) {
            return;
        }
        let stamp = self.now.saturating_add(SignedDuration::from_nanos(self.changes)).unwrap_or(self.now);
        self.changes += 1;
        condition.last_transition_time = Some(Time(stamp));
        match place {
            Some(i) => self.list[i] = condition,
            None => self.list.push(condition),
        }
        // Clients see this order, which is Knative's.
        self.list.sort_by(|a, b| a.type_.cmp(&b.type_));
    }

    /// Returns the dependent that `Ready` follows: the newest false one, else the newest unknown one, else an unknown
    /// condition if a dependent is missing. As in Knative, every condition with the severity of an error counts as a
    /// dependent.
    fn unhappy_dependent(&self) -> Option<Condition> {
        let mut relevant: Vec<&Condition> =
            self.list.iter().filter(|c| c.severity == Severity::Error && c.type_ != READY).collect();
        relevant.sort_by_key(|c| std::cmp::Reverse(c.last_transition_time.as_ref().map(|t| t.0)));
        relevant
            .iter()
            .find(|c| c.is_false())
            .or_else(|| relevant.iter().find(|c| c.status == ConditionStatus::Unknown))
            .map(|c| (*c).clone())
            .or_else(|| (relevant.len() < self.dependents.len()).then(Condition::default))
    }
}

/// Sets the times of conditions. A condition that is the same as in `before` gets its time from there, all others get `now`.
/// So a condition that has changed and changed back keeps its time.
pub fn set_transition_times(list: &mut [Condition], before: &[Condition], now: Timestamp) {
    // Times of Kubernetes have whole seconds. With more, the status would differ from the stored one after each reading.
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    for condition in list {
        let old = before.iter().find(|old| old.equals_except_times(condition));
        condition.last_transition_time = match old {
            Some(old) => old.last_transition_time.clone(),
            None => Some(Time(second)),
        };
    }
}
