//! Rules in the Common Expression Language. Only this module uses the `cel` crate: it is young, and its types
//! must not spread.
//!
//! The walk over schema and value is our own (not kube-cel's validator). Like the reference, it correlates old and new list
//! items, ratchets, escapes field names and words errors, and it converts only values that have rules.

mod bounds;
mod budget;
pub(crate) mod condition;
mod errors;
mod functions;
pub(crate) mod identifier;
mod library;
mod memo;
mod optional;
mod program;
pub(crate) mod rule;
pub(crate) mod rules;
mod shape;
pub(crate) mod types;
mod value;

use std::sync::Arc;

use kube_cel::cel::{Context, ExecutionError, objects::OptionalValue};
use serde_json::Value;

pub use self::program::Program;
use self::{
    budget::{EXCEEDED, OF_OBJECT},
    errors::cel_go_message,
    library::LIBRARY,
    shape::Shape,
    value::convert,
};
use crate::{Cause, lists::StoredItems, path::Path, structural::Node};

type Cel = kube_cel::cel::Value;

/// The result of evaluating rules.
#[derive(Debug, Default)]
pub(crate) struct RuleResults {
    pub(crate) causes: Vec<Cause>,
    /// Failures tolerated because the value did not change.
    pub(crate) warnings: Vec<String>,
    /// Buffers for the parts of a value that a single rule reads, and that all rules of a node read. They are reused for
    /// hundreds of evaluations.
    keys: [Vec<u8>; 2],
    /// The remaining budget for the rules of the object.
    left: u64,
    /// Whether the budget was exceeded, so that no further rule is evaluated.
    ended: bool,
}

/// Evaluates all rules of `schema` for `value`. `old` is the stored value on updates.
pub(crate) fn check(value: &Value, old: Option<&Value>, schema: &Node) -> RuleResults {
    let mut results = RuleResults { left: OF_OBJECT, ..RuleResults::default() };
    LIBRARY.with(|library| results.walk(library, value, old, schema, &mut Path::default()));
    results
}

// === impl RuleResults ===

impl RuleResults {
    fn walk(
        &mut self,
        library: &Context<'_>,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &mut Path,
    ) {
        if !schema.below.rules || self.ended {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        if !schema.rules.is_empty() && !value.is_null() {
            self.rules(library, value, old, schema, path);
        }
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    if let Some(child) = schema.field(name) {
                        let old = old.and_then(|old| old.get(name));
                        path.member(name, |path| self.walk(library, value, old, child, path));
                    }
                }
            }
            Value::Array(items) => {
                if let Some(child) = schema.items.as_deref().filter(|child| child.below.rules) {
                    let stored = StoredItems::of(schema, old);
                    for (index, item) in items.iter().enumerate() {
                        path.item(index, |path| self.walk(library, item, stored.get(item), child, path));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        library: &Context<'_>,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &str,
    ) {
        let unchanged = || old == Some(value);
        let found = self.causes.len() + self.warnings.len();
        let all_held = schema.rules.lookup(value, &mut self.keys[1]);
        let all_read = all_held.and_then(|_| schema.rules.reads());
        let mut shared_scope = None;
        let mut size = None;
        for rule in schema.rules.iter() {
            let compiled = match rule.compiled() {
                Ok(compiled) => compiled,
                Err(error) => {
                    let detail = format!("rule compile error: {error}");
                    self.causes.push(Cause::invalid(path, &Value::from(schema.type_name()), detail));
                    continue;
                }
            };
            // A transition rule has nothing to compare with at creation.
            if compiled.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            if all_held == Some(true) && !compiled.uses_old {
                continue;
            }
            // A rule that reads everything that the rules of the node read together needs no memo of its own.
            let is_apart = all_held.is_none() || all_read != Some(&compiled.reads[0]);
            let key = &mut self.keys[0];
            let has_key = !compiled.uses_old && is_apart && memo::write_key(value, &compiled.reads[0], key);
            if has_key && compiled.memo.contains(key) {
                continue;
            }
            let scope = |[now, before]: [&Shape; 2]| {
                let mut scope = library.new_inner_scope();
                scope.add_variable_from_value("self", convert(library, value, Some(schema), now));
                if compiled.uses_old {
                    let old = old.map(|old| convert(library, old, Some(schema), before));
                    let old = if rule.optional_old { Some(optional(old)) } else { old };
                    scope.add_variable_from_value("oldSelf", old.unwrap_or(Cel::Null));
                }
                scope
            };
            let whole = Shape::whole();
            let size = *size.get_or_insert_with(|| {
                budget::size(value, budget::LARGE) + old.map_or(0, |old| budget::size(old, budget::LARGE))
            });
            let held = match all_read.filter(|_| !compiled.uses_old) {
                // A short value is converted once for all rules of the node.
                Some(all) => compiled.runnable.resolve(
                    shared_scope.get_or_insert_with(|| scope([all, all])),
                    size,
                    &mut self.left,
                ),
                None => compiled.runnable.resolve(&scope(compiled.reads.each_ref()), size, &mut self.left),
            };
            let cause = match held {
                Ok(Cel::Bool(true)) => {
                    if has_key {
                        compiled.memo.insert(&self.keys[0]);
                    }
                    continue;
                }
                Ok(_) => {
                    let detail = rule.failed(|| scope([&whole, &whole]), compiled, size, &mut self.left);
                    rule.cause(path, schema.type_name(), &detail)
                }
                Err(error) if is_exceeded(&error) => {
                    self.ended = true;
                    let detail = if self.left == 0 {
                        "validation failed due to running out of cost budget, no further validation rules will be run"
                            .to_owned()
                    } else {
                        format!(
                            "'{EXCEEDED}': no further validation rules will be run due to call cost exceeds limit for \
                             rule: {}",
                            rule.named()
                        )
                    };
                    self.causes.push(Cause::invalid(path, &Value::from(schema.type_name()), detail));
                    return;
                }
                Err(error) => Cause::invalid(
                    path,
                    &Value::from(schema.type_name()),
                    format!("{} evaluating rule: {}", cel_go_message(&error), rule.named()),
                ),
            };
            // Ratcheting. What a transition rule is about is the change itself, so its failure is never tolerated.
            if !compiled.uses_old && unchanged() {
                self.warnings.push(format!("{}: {}", cause.field, cause.message));
            } else {
                self.causes.push(cause);
            }
        }
        if all_held == Some(false) && found == self.causes.len() + self.warnings.len() {
            schema.rules.remember(&self.keys[1]);
        }
    }
}

fn is_exceeded(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::FunctionError { message, .. } if message == EXCEEDED)
}

fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}
