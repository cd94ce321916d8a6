//! Rules in the Common Expression Language. Only this module and those beside it know the `cel` crate: it is
//! young, and its types must not spread.
//!
//! The walk over schema and value is our own (not kube-cel's validator): it follows the reference's correlation of old
//! and new list items, ratcheting, escaping of field names and error texts, and converts only values that have rules.

use std::{cell::RefCell, collections::HashMap, sync::Arc, sync::OnceLock};

use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ExecutionError, FunctionContext, common::ast::IdedExpr, extractors::This,
        objects::OptionalValue, parser::Parser,
    },
};
use regex::Regex;
use serde_json::Value;

use super::{
    cel_memo::{self, Memo},
    cel_optional,
    cel_shape::{self, Shape},
    cel_value::{convert, plain},
    default::correlated,
    path::Path,
    structural::Node,
    validate::join,
};
use crate::Cause;

type Cel = kube_cel::cel::Value;

/// A CEL expression that parsed.
#[derive(Debug)]
pub struct Program {
    pub(crate) expression: IdedExpr,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub(crate) struct Rule {
    source: Box<str>,
    message: Box<str>,
    message_expression: Box<str>,
    reason: Box<str>,
    field_path: Box<str>,
    optional_old: bool,
    compiled: OnceLock<Result<Compiled, String>>,
}

#[derive(Debug)]
struct Compiled {
    program: Program,
    runnable: Program,
    message: Option<Program>,
    uses_old: bool,
    /// What the rule looks at in `self` and `oldSelf`.
    looks_at: [Shape; 2],
    memo: Memo,
}

/// What rules had to say.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) causes: Vec<Cause>,
    /// Failures tolerated because the value did not change.
    pub(crate) warnings: Vec<String>,
    /// Room for what one rule looks at, and for what those of a node do: there are hundreds of evaluations.
    seen: [Vec<u8>; 2],
}

thread_local! {
    /// Functions of the standard and the Kubernetes libraries; a context is not `Sync`.
    static LIBRARY: Context<'static> = library();
    /// Patterns of rules, compiled; the library compiles them at each call.
    static PATTERNS: RefCell<HashMap<Arc<String>, Regex>> = RefCell::default();
}

/// Patterns that are remembered. Those of definitions are few; others are made up by rules as they run.
const PATTERNS_MOST: usize = 64;

fn library() -> Context<'static> {
    let mut library = Context::default().with_all();
    library.add_function("matches", matches);
    library
}

fn matches(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some(known) = patterns.get(&pattern) {
            return Ok(known.is_match(&text));
        }
        let compiled = Regex::new(&pattern)
            .map_err(|error| call.error(format!("'{pattern}' not a valid regex:\n{error}")))?;
        let verdict = compiled.is_match(&text);
        if patterns.len() >= PATTERNS_MOST {
            patterns.clear();
        }
        patterns.insert(pattern, compiled);
        Ok(verdict)
    })
}

/// Evaluates all rules of `schema` on `value`; `old` is the stored value on updates.
pub(crate) fn check(value: &Value, old: Option<&Value>, schema: &Node) -> Judgement {
    let mut judgement = Judgement::default();
    LIBRARY.with(|library| judgement.walk(library, value, old, schema, &mut Path::default()));
    judgement
}

// === impl Program ===

impl Program {
    /// Parses `source`.
    ///
    /// # Errors
    ///
    /// Why it does not parse, in the words of the reference's parser.
    pub fn compile(source: &str) -> Result<Self, String> {
        match Parser::new().enable_optional_syntax(true).parse(source) {
            Ok(expression) => Ok(Self { expression }),
            Err(errors) => Err(errors
                .to_string()
                .lines()
                .map(|line| if line.starts_with('|') { format!(" {line}") } else { line.to_owned() })
                .collect::<Vec<_>>()
                .join("\n")),
        }
    }

    /// The program as it is run.
    #[must_use]
    pub fn runnable(mut self) -> Self {
        cel_optional::rewrite(&mut self.expression, None);
        self
    }

    /// Whether the free variable `name` occurs.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.expression.references().has_variable(name)
    }

    /// Evaluates to a truth value over JSON variables.
    ///
    /// # Errors
    ///
    /// Why it has no value, or that the value is no truth value.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        LIBRARY.with(|library| {
            let mut scope = library.new_inner_scope();
            for (name, value) in variables {
                scope.add_variable_from_value(*name, plain(value));
            }
            match Cel::resolve(&self.expression, &scope) {
                Ok(Cel::Bool(verdict)) => Ok(verdict),
                Ok(_) => Err("cel expression must evaluate to a bool".to_owned()),
                Err(error) => Err(worded(&error)),
            }
        })
    }
}

// === impl Rule ===

impl Rule {
    /// Reads a rule; it is compiled when first needed.
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

    /// The compiled rule, if it compiles.
    pub(crate) fn program(&self) -> Result<&Program, &str> {
        match self.compiled() {
            Ok(compiled) => Ok(&compiled.program),
            Err(why) => Err(why),
        }
    }

    /// What the rule looks at, if it is about a value alone, not about how it was before.
    pub(crate) fn looks_at(&self) -> Option<&Shape> {
        self.compiled()
            .as_ref()
            .ok()
            .filter(|compiled| !compiled.uses_old)
            .map(|compiled| &compiled.looks_at[0])
    }

    fn compiled(&self) -> &Result<Compiled, String> {
        self.compiled.get_or_init(|| {
            // The rule as written, for checks and messages, is not rewritten; what runs is.
            let program = Program::compile(&self.source)?;
            let message = if self.message_expression.trim().is_empty() {
                None
            } else {
                Some(self.runnable(Program::compile(&self.message_expression)?))
            };
            let runnable = self.runnable(Program { expression: program.expression.clone() });
            let uses_old = program.uses("oldSelf");
            let looks_at = cel_shape::of(&runnable.expression, ["self", "oldSelf"]);
            Ok(Compiled { program, runnable, message, uses_old, looks_at, memo: Memo::default() })
        })
    }

    fn runnable(&self, mut program: Program) -> Program {
        cel_optional::rewrite(&mut program.expression, self.optional_old.then_some("oldSelf"));
        program
    }

    /// How the rule is named in messages about its evaluation.
    fn named(&self) -> &str {
        if self.message.is_empty() { self.source.trim() } else { &self.message }
    }

    /// `scope` holds the variables as a whole: the message may name what the rule does not.
    fn failed<'a>(&self, scope: impl FnOnce() -> Context<'a>, compiled: &'a Compiled) -> String {
        if let Some(program) = &compiled.message
            && let Ok(Cel::String(text)) = Cel::resolve(&program.expression, &scope())
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

impl Judgement {
    fn walk(
        &mut self,
        library: &Context<'_>,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &mut Path,
    ) {
        if !schema.below.rules {
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
            // One that looks at all that they look at has nothing to remember that is not remembered for all of them.
            let is_apart = known.is_none() || together != Some(&compiled.looks_at[0]);
            let seen = &mut self.seen[0];
            let is_short =
                !compiled.uses_old && is_apart && cel_memo::seen(value, &compiled.looks_at[0], seen);
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
            let failed = || rule.failed(|| scope([&whole, &whole]), compiled);
            let held = match together.filter(|_| !compiled.uses_old) {
                // What is short is converted once for all rules of the node.
                Some(all) => Cel::resolve(
                    &compiled.runnable.expression,
                    shared.get_or_insert_with(|| scope([all, all])),
                ),
                None => Cel::resolve(&compiled.runnable.expression, &scope(compiled.looks_at.each_ref())),
            };
            let cause = match held {
                Ok(Cel::Bool(true)) => {
                    if is_short {
                        compiled.memo.note(&self.seen[0]);
                    }
                    continue;
                }
                Ok(_) => rule.cause(path, schema.type_name(), &failed()),
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

fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// An evaluation error in cel-go's words, as far as they are known.
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
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// `fieldPath` of a rule below the path of its node; both `.a.b` and `['a']` occur.
fn join_path(path: &str, below: &str) -> String {
    let below = below.trim_start_matches('.').replace("['", ".").replace("']", "");
    let below = below.trim_start_matches('.');
    if below.is_empty() { path.to_owned() } else { join(path, below) }
}
