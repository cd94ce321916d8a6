//! Rules in the Common Expression Language. Only this module uses the `cel` crate: it is young, and its types
//! must not spread.
//!
//! The walk over schema and value is our own (not kube-cel's validator). Like the reference, it correlates old and new list
//! items, ratchets, escapes field names and words errors, and it converts only values that have rules.

mod bounds;
mod budget;
pub(crate) mod condition;
mod functions;
mod memo;
mod optional;
mod program;
pub(crate) mod rules;
mod shape;
pub(crate) mod types;
mod value;

use std::sync::{Arc, OnceLock};

use kube_cel::{
    KubeCelExt,
    cel::{Context, ExecutionError, objects::OptionalValue},
};
use serde_json::Value;

use crate::{Cause, default::correlated, path::Path, structural::Node, validate::join};
use budget::{EXCEEDED, MeteredExpression, OF_OBJECT};
use memo::Memo;
pub use program::Program;
use shape::Shape;
use value::convert;

type Cel = kube_cel::cel::Value;

/// One entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub(crate) struct Rule {
    source: Box<str>,
    message: Box<str>,
    message_expression: Box<str>,
    reason: Box<str>,
    field_path: Box<str>,
    optional_old: bool,
    compiled: OnceLock<Result<CompiledRule, String>>,
}

#[derive(Debug)]
struct CompiledRule {
    program: Program,
    runnable: MeteredExpression,
    message: Option<MeteredExpression>,
    uses_old: bool,
    /// The parts of `self` and `oldSelf` that the rule reads.
    looks_at: [Shape; 2],
    memo: Memo,
}

/// The result of evaluating rules.
#[derive(Debug, Default)]
pub(crate) struct RuleResults {
    pub(crate) causes: Vec<Cause>,
    /// Failures tolerated because the value did not change.
    pub(crate) warnings: Vec<String>,
    /// Buffers for the parts of a value that a single rule reads, and that all rules of a node read. They are reused for
    /// hundreds of evaluations.
    seen: [Vec<u8>; 2],
    /// The remaining budget for the rules of the object.
    left: u64,
    /// Whether the budget was exceeded, so that no further rule is evaluated.
    ended: bool,
}

thread_local! {
    /// Functions of the standard library and the Kubernetes libraries. It is thread-local, because a context is not `Sync`.
    static LIBRARY: Context<'static> = library();
}

fn library() -> Context<'static> {
    let mut library = Context::default().with_all();
    functions::register(&mut library);
    budget::register(&mut library);
    library
}

/// Evaluates all rules of `schema` for `value`. `old` is the stored value on updates.
pub(crate) fn check(value: &Value, old: Option<&Value>, schema: &Node) -> RuleResults {
    let mut judgement = RuleResults { left: OF_OBJECT, ..RuleResults::default() };
    LIBRARY.with(|library| judgement.walk(library, value, old, schema, &mut Path::default()));
    judgement
}

// === impl Rule ===

impl Rule {
    /// Reads a rule. It is compiled when it is first evaluated.
    pub(crate) fn new(rule: &Value) -> Self {
        let text = |key: &str| rule[key].as_str().unwrap_or_default().into();
        Self {
            source: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old: rule["optionalOldSelf"] == true,
            compiled: OnceLock::new(),
        }
    }

    /// Returns the compiled rule, or why it does not compile.
    pub(crate) fn program(&self) -> Result<&Program, &str> {
        match self.compiled() {
            Ok(compiled) => Ok(&compiled.program),
            Err(why) => Err(why),
        }
    }

    /// The part of a value that the rule reads. Returns `None` if the rule also reads the old value.
    fn looks_at(&self) -> Option<&Shape> {
        self.compiled()
            .as_ref()
            .ok()
            .filter(|compiled| !compiled.uses_old)
            .map(|compiled| &compiled.looks_at[0])
    }

    fn compiled(&self) -> &Result<CompiledRule, String> {
        self.compiled.get_or_init(|| {
            // The rule is kept as written for checks and messages. Only the copy for evaluation is rewritten.
            let program = Program::compile(&self.source)?;
            let message = if self.message_expression.trim().is_empty() {
                None
            } else {
                Some(self.runnable(Program::compile(&self.message_expression)?))
            };
            let runnable = self.runnable(Program { expression: program.expression.clone(), budgeted: None });
            let uses_old = program.uses("oldSelf");
            let looks_at = shape::of(runnable.expression(), ["self", "oldSelf"]);
            Ok(CompiledRule { program, runnable, message, uses_old, looks_at, memo: Memo::default() })
        })
    }

    fn runnable(&self, mut program: Program) -> MeteredExpression {
        optional::rewrite(&mut program.expression, self.optional_old.then_some("oldSelf"));
        MeteredExpression::new(program.expression)
    }

    /// The name of the rule in messages about its evaluation.
    fn named(&self) -> &str {
        if self.message.is_empty() { self.source.trim() } else { &self.message }
    }

    /// Returns the message of a failed rule. `scope` has the complete variables, because the message may read parts that the
    /// rule does not.
    fn failed<'a>(
        &self,
        scope: impl FnOnce() -> Context<'a>,
        compiled: &'a CompiledRule,
        size: u64,
        left: &mut u64,
    ) -> String {
        if let Some(program) = &compiled.message
            && let Ok(Cel::String(text)) = program.resolve(&scope(), size, left)
        {
            let text = text.trim();
            if !text.is_empty() && !text.contains('\n') {
                return text.to_owned();
            }
        }
        if self.message.is_empty() {
            format!("failed rule: {}", self.source.trim())
        } else {
            self.message.to_string()
        }
    }

    fn cause(&self, path: &str, kind: &str, detail: &str) -> Cause {
        let path = join_path(path, &self.field_path);
        let kind = Value::from(kind);
        match &*self.reason {
            "FieldValueForbidden" => Cause::forbidden(path, detail),
            "FieldValueRequired" => Cause::required(path, detail),
            "FieldValueDuplicate" => Cause::duplicate(path, &kind),
            _ => Cause::invalid(path, &kind, detail),
        }
    }
}

// === impl Judgement ===

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
                    for (index, item) in items.iter().enumerate() {
                        let old = correlated(schema, item, old);
                        path.item(index, |path| self.walk(library, item, old, child, path));
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
        let known = schema.rules.known(value, &mut self.seen[1]);
        let together = known.and_then(|_| schema.rules.looks_at());
        let mut shared = None;
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
            if compiled.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            if known == Some(true) && !compiled.uses_old {
                continue;
            }
            // A rule that reads everything that the rules of the node read together needs no memo of its own.
            let is_apart = known.is_none() || together != Some(&compiled.looks_at[0]);
            let seen = &mut self.seen[0];
            let is_short = !compiled.uses_old && is_apart && memo::seen(value, &compiled.looks_at[0], seen);
            if is_short && compiled.memo.knows(seen) {
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
            let mut left = self.left;
            let held = match together.filter(|_| !compiled.uses_old) {
                // A short value is converted once for all rules of the node.
                Some(all) => compiled.runnable.resolve(
                    shared.get_or_insert_with(|| scope([all, all])),
                    size,
                    &mut left,
                ),
                None => compiled.runnable.resolve(&scope(compiled.looks_at.each_ref()), size, &mut left),
            };
            self.left = left;
            let mut failed = || rule.failed(|| scope([&whole, &whole]), compiled, size, &mut left);
            let cause = match held {
                Ok(Cel::Bool(true)) => {
                    if is_short {
                        compiled.memo.note(&self.seen[0]);
                    }
                    continue;
                }
                Ok(_) => rule.cause(path, schema.type_name(), &failed()),
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
                    format!("{} evaluating rule: {}", worded(&error), rule.named()),
                ),
            };
            if !compiled.uses_old && unchanged() {
                self.warnings.push(format!("{}: {}", cause.field, cause.message));
            } else {
                self.causes.push(cause);
            }
        }
        if known == Some(false) && found == self.causes.len() + self.warnings.len() {
            schema.rules.note(&self.seen[1]);
        }
    }
}

fn is_exceeded(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::FunctionError { message, .. } if message == EXCEEDED)
}

fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Words an evaluation error like cel-go, as far as possible.
fn worded(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::UndeclaredReference(name) => {
            format!("undeclared reference to '{name}' (in container '')")
        }
        // the evaluator's message is the debug output of its parser
        ExecutionError::FunctionError { function, .. } if function == "duration" => {
            "type conversion error from 'string' to 'google.protobuf.Duration'".to_owned()
        }
        ExecutionError::FunctionError { function, .. } if function == "timestamp" => {
            "type conversion error from 'string' to 'google.protobuf.Timestamp'".to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Appends the `fieldPath` of a rule to the path of its node. Both `.a.b` and `['a']` are possible.
fn join_path(path: &str, below: &str) -> String {
    let below = below.trim_start_matches('.').replace("['", ".").replace("']", "");
    let below = below.trim_start_matches('.');
    if below.is_empty() { path.to_owned() } else { join(path, below) }
}
