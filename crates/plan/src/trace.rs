//! Finds the origin of the fields of children.
//!
//! Planning is a pure function that takes microseconds. So this module changes fields of the composed spec, plans the service
//! again, and compares: the fields of children that differ depend on the changed fields. If a child then has the changed
//! value itself, it was copied. This module has no knowledge of how children are planned, so it cannot contradict the
//! planner.

use std::collections::BTreeMap;

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use serde_json::{Value, json};

use crate::paths;

/// The suffix that makes a string differ.
pub const CHANGE: &str = "-x";

/// The number of groups into which the fields of a spec are divided. Two changes in the same group can hide each other, for
/// instance if a field disables what another one configures. Neighbours are in different groups, and then the results equal
/// those of single changes.
pub const GROUPS: usize = 16;

/// A field of a child: the object's position, and a JSON pointer.
pub type Target = (usize, String);

/// The origins of fields of children.
pub type Traces = BTreeMap<Target, Trace>;

/// The origin of a field of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The field of the composed spec from which it is copied, as a JSON pointer.
    pub copied: Option<String>,
    /// Other fields on which it depends, as JSON pointers into the composed spec.
    pub inputs: Vec<String>,
    /// Other inputs on which it depends, in words. [`Probe`] only changes the spec, so the caller adds them.
    pub others: Vec<String>,
}

/// A field of the composed spec, and its changed value.
struct Edit {
    /// Its position among the changes.
    number: usize,
    pointer: String,
    before: Value,
    after: Value,
}

/// The changes on which a field of a child was found to depend, by number.
#[derive(Clone, Default)]
struct FieldDependencies {
    copied: Option<usize>,
    inputs: Vec<usize>,
}

/// Plans a service with changed specs.
pub struct Probe<'a> {
    /// Plans the service with this spec. `None` if that fails.
    pub plan: &'a dyn Fn(&LLMInferenceServiceSpec) -> Option<Vec<Value>>,
    /// The composed spec.
    pub spec: &'a Value,
    /// Its children.
    pub objects: &'a [Value],
}

// === impl Probe ===

impl Probe<'_> {
    /// Finds the origins of these fields with changes in this number of groups.
    pub fn traces(&self, fields: &[Target], groups: usize) -> Traces {
        let changes = changes(self.spec);
        let mut found: BTreeMap<Target, FieldDependencies> =
            fields.iter().map(|field| (field.clone(), FieldDependencies::default())).collect();
        for first in 0..groups {
            let group: Vec<&Edit> = changes.iter().skip(first).step_by(groups).collect();
            self.within(&group, fields.to_vec(), &mut found);
        }
        let pointer = |number: usize| changes[number].pointer.clone();
        let described = found.into_iter().map(|(field, mut found)| {
            found.inputs.sort_unstable();
            let inputs = match found.copied {
                // For a copy, other dependencies are left out.
                Some(_) => Vec::new(),
                None => found.inputs.into_iter().map(pointer).collect(),
            };
            (field, Trace { copied: found.copied.map(pointer), inputs, others: Vec::new() })
        });
        described.collect()
    }

    /// Finds the origins of these fields among some changes. All changes are made at once: a field that stays the same
    /// depends on none of them, and a field that has the value of a change is a copy. For the remaining fields, each half of
    /// the changes is tried. So explaining a field takes a few plans instead of one for each field of the spec.
    fn within(
        &self,
        changes: &[&Edit],
        fields: Vec<Target>,
        found: &mut BTreeMap<Target, FieldDependencies>,
    ) {
        if changes.is_empty() || fields.is_empty() {
            return;
        }
        let mut spec = self.spec.clone();
        for change in changes {
            if let Some(slot) = spec.pointer_mut(&change.pointer) {
                slot.clone_from(&change.after);
            }
        }
        let replanned = serde_json::from_value(spec).ok().and_then(|spec| (self.plan)(&spec));
        let planned = replanned.filter(|planned| have_same_kinds(planned, self.objects));
        let open = match planned {
            Some(planned) => self.undecided(&planned, changes, fields, found),
            // The changed spec cannot be planned, or has other children. The halves will show which change causes that.
            None => fields,
        };
        if changes.len() > 1 {
            let (first, second) = changes.split_at(changes.len() / 2);
            self.within(first, open.clone(), found);
            self.within(second, open, found);
        }
    }

    /// Records which fields are copies of changed ones. Returns the fields that differ for another reason.
    fn undecided(
        &self,
        planned: &[Value],
        changes: &[&Edit],
        mut fields: Vec<Target>,
        found: &mut BTreeMap<Target, FieldDependencies>,
    ) -> Vec<Target> {
        fields.retain(|field| {
            let before = self.objects[field.0].pointer(&field.1);
            let after = planned[field.0].pointer(&field.1);
            // If elements were added or removed, another element may be at this position.
            let moved = changes.len() > 1 && !aligned(&self.objects[field.0], &planned[field.0], &field.1);
            let Some(found) = found.get_mut(field).filter(|_| moved || before != after) else { return false };
            // There are only two booleans, so any of several changes may have caused this one.
            let telling = changes.len() == 1 || !(moved || before.is_some_and(Value::is_boolean));
            let copied = changes
                .iter()
                .find(|change| telling && before == Some(&change.before) && after == Some(&change.after));
            match (copied, changes) {
                (Some(change), _) => {
                    let first = found.copied.map_or(change.number, |other| other.min(change.number));
                    found.copied = Some(first);
                    false
                }
                (None, [only]) => {
                    found.inputs.push(only.number);
                    false
                }
                (None, _) => true,
            }
        });
        fields
    }
}

/// Whether the lists on the path to a field have the same length in both objects.
pub(crate) fn aligned(one: &Value, other: &Value, pointer: &str) -> bool {
    let mut ends = pointer.match_indices('/').map(|(at, _)| &pointer[..at]);
    ends.all(|end| {
        let length = |object: &Value| object.pointer(end).and_then(Value::as_array).map(Vec::len);
        length(one) == length(other)
    })
}

/// The number of fields of a spec that [`Probe`] can change.
pub fn count_changes(spec: &Value) -> usize {
    changes(spec).len()
}

/// Returns a changed value for each field of a spec. Fields with equal values get different changes.
fn changes(spec: &Value) -> Vec<Edit> {
    let mut same: BTreeMap<String, i64> = BTreeMap::new();
    let mut all = Vec::new();
    for (place, value) in paths::leaves(spec) {
        let count = same.entry(value.to_string()).or_default();
        let Some(after) = different_value(value, *count) else { continue };
        *count += 1;
        all.push(Edit { number: all.len(), pointer: place.pointer, before: value.clone(), after });
    }
    all
}

/// Whether both lists have the same kinds of objects in the same order.
pub fn have_same_kinds(one: &[Value], other: &[Value]) -> bool {
    let kind = |object: &Value| (object["apiVersion"].clone(), object["kind"].clone());
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| kind(a) == kind(b))
}

/// Returns another value of the same type. It differs for each number.
fn different_value(value: &Value, number: i64) -> Option<Value> {
    Some(match value {
        Value::String(text) if number == 0 => json!(format!("{text}{CHANGE}")),
        Value::String(text) => json!(format!("{text}{CHANGE}{number}")),
        Value::Bool(value) => json!(!value),
        Value::Number(old) => json!(old.as_i64()? + 1 + number),
        _ => return None,
    })
}
