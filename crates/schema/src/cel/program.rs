//! Parsed expressions.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{
    common::ast::{EntryExpr, Expr, IdedExpr},
    objects::{Key, Map},
    parser::Parser,
};
use serde_json::Value;

use super::{
    bounds,
    budget::{self, MeteredExpression, OF_OBJECT},
    errors::{cel_go_message, undeclared_message},
    library::LIBRARY,
    optional,
};

type Cel = kube_cel::cel::Value;

/// A parsed CEL expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) expression: IdedExpr,
    pub(super) budgeted: Option<MeteredExpression>,
}

/// The message of the reference's parser if an expression is missing.
const EMPTY_EXPRESSION_ERROR: &str = "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// The type name of the first message (`Name{…}`) in an expression. No rule has access to message types, and nothing
/// evaluates them.
fn unknown_message(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Struct(message) => Some(&message.type_name),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).find_map(unknown_message),
        Expr::Comprehension(fold) => {
            [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result]
                .into_iter()
                .find_map(unknown_message)
        }
        Expr::List(list) => list.elements.iter().find_map(unknown_message),
        Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                unknown_message(&entry.key).or_else(|| unknown_message(&entry.value))
            }
            EntryExpr::StructField(field) => unknown_message(&field.value),
        }),
        Expr::Select(select) => unknown_message(&select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => None,
    }
}

/// Converts a value without a schema.
pub(super) fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => number
            .as_i64()
            .map(Cel::Int)
            .or_else(|| number.as_u64().map(Cel::UInt))
            .unwrap_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(map) => object(map.iter().map(|(name, value)| (name.clone(), plain(value)))),
    }
}

pub(super) fn object(fields: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<Key, Cel> = fields.map(|(name, value)| (Key::String(Arc::new(name)), value)).collect();
    Cel::Map(Map { map: Arc::new(map) })
}

// === impl Program ===

impl Program {
    /// Parses `source`.
    ///
    /// # Errors
    ///
    /// Why it does not parse, worded like the reference's parser.
    pub fn compile(source: &str) -> Result<Self, String> {
        bounds::check(source)?;
        if source.is_empty() {
            return Err(format!("ERROR: <input>:1:0: {EMPTY_EXPRESSION_ERROR}"));
        }
        // The parser may give up on nonsense by a panic; nothing of it is used afterwards.
        let parse = || Parser::new().enable_optional_syntax(true).parse(source);
        let parsed = std::panic::catch_unwind(parse)
            .map_err(|_| "ERROR: <input>:1:1: Syntax error: the expression cannot be parsed".to_owned())?;
        match parsed {
            Ok(expression) => match unknown_message(&expression) {
                None => Ok(Self { expression, budgeted: None }),
                Some(name) => Err(undeclared_message(source, name)),
            },
            Err(errors) => Err(errors
                .to_string()
                .lines()
                .map(|line| if line.starts_with('|') { format!(" {line}") } else { line.to_owned() })
                .collect::<Vec<_>>()
                .join("\n")),
        }
    }

    /// Returns the program prepared for evaluation.
    #[must_use]
    pub fn runnable(mut self) -> Self {
        optional::rewrite(&mut self.expression, None);
        self.budgeted = Some(MeteredExpression::new(self.expression.clone()));
        self
    }

    /// Whether the expression has the free variable `name`.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.expression.references().has_variable(name)
    }

    /// Evaluates the expression to a boolean, with JSON variables.
    ///
    /// # Errors
    ///
    /// If the evaluation fails, or the result is not a boolean.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        self.holds_within(variables, OF_OBJECT)
    }

    /// Like [`Self::holds`], with a budget of this many steps.
    pub(crate) fn holds_within(&self, variables: &[(&str, &Value)], steps: u64) -> Result<bool, String> {
        match self.resolve(variables, steps)? {
            Cel::Bool(verdict) => Ok(verdict),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        }
    }

    /// Evaluates the expression to a whole number, with JSON variables. A float loses its fraction.
    ///
    /// # Errors
    ///
    /// If the evaluation fails, or the result is not a finite number.
    pub fn whole_number(&self, variables: &[(&str, &Value)]) -> Result<i64, String> {
        match self.resolve(variables, OF_OBJECT)? {
            Cel::Int(number) => Ok(number),
            Cel::Float(number) if number.is_finite() => {
                #[expect(clippy::cast_possible_truncation, reason = "saturates, and the fraction is dropped")]
                let integer = number as i64;
                Ok(integer)
            }
            _ => Err("cel expression must evaluate to a number".to_owned()),
        }
    }

    /// Returns a free variable that is not among `known`, if there is one.
    pub fn unknown_variable(&self, known: &[&str]) -> Option<String> {
        let references = self.expression.references();
        references.variables().into_iter().find(|name| !known.contains(name)).map(str::to_owned)
    }

    fn resolve(&self, variables: &[(&str, &Value)], mut steps: u64) -> Result<Cel, String> {
        LIBRARY.with(|library| {
            let mut scope = library.new_inner_scope();
            let mut size = 0;
            for (name, value) in variables {
                size += budget::size(value, budget::LARGE);
                scope.add_variable_from_value(*name, plain(value));
            }
            let resolved = match &self.budgeted {
                Some(program) => program.resolve(&scope, size, &mut steps),
                None => MeteredExpression::new(self.expression.clone()).resolve(&scope, size, &mut steps),
            };
            resolved.map_err(|error| cel_go_message(&error))
        })
    }
}
