//! Static checks of CEL rules: fields that the schema does not have, unknown names, and nested loops over unbounded lists.
//!
//! These checks are much weaker than cel-go's type checker and cost model. They find common mistakes, and never refuse a rule
//! that the reference accepts: expressions that they do not understand have an unknown type, and costs are underestimated.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{
    errors::{at, undeclared},
    program::Program,
};
use crate::structural::{Additional, Node};

/// The largest request in bytes. It limits lists without `maxItems`.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// The budget of one rule, in steps.
const RULE_BUDGET: u64 = 10_000_000;

/// The budget of all rules of a schema, in steps.
const SCHEMA_BUDGET: u64 = 100_000_000;

/// Names of types.
const TYPE_NAMES: [&str; 14] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional",
    "sets",
    "math",
    "strings",
];

/// The macro that gives a value a name. It is known where it is in scope: rules of schemas have no such macro.
const BIND: &str = "cel.bind";

/// Name spaces of functions.
const SPACES: [&str; 8] = ["base64", "cel", "format", "google", "jsonpatch", "lists", "net", "regex"];

/// Checks a rule for values of `schema`. The error has cel-go's wording.
pub(crate) fn check(program: &Program, source: &str, schema: &Node) -> Result<(), String> {
    let mut scope: Vec<(String, Option<&Node>)> =
        vec![("self".to_owned(), Some(schema)), ("oldSelf".to_owned(), None)];
    walk(&program.expression, &mut scope, source).map(|_| ())
}

/// Whether the result of a rule on `schema` is known not to be a boolean.
pub(crate) fn is_no_condition(program: &Program, schema: &Node) -> bool {
    let mut scope: Vec<(String, Option<&Node>)> =
        vec![("self".to_owned(), Some(schema)), ("oldSelf".to_owned(), Some(schema))];
    match &program.expression.expr {
        Expr::Literal(LiteralValue::Boolean(_)) => false,
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => true,
        Expr::Select(select) if select.test => false,
        Expr::Ident(_) | Expr::Select(_) => walk(&program.expression, &mut scope, "")
            .ok()
            .flatten()
            .is_some_and(|node| !node.preserve && !matches!(node.type_name(), "" | "boolean")),
        Expr::Call(call) => is_arithmetic(&call.func_name) || call.func_name == "size",
        _ => false,
    }
}

/// Whether a function computes a number from numbers.
pub(super) fn is_arithmetic(function: &str) -> bool {
    use operators::{ADD, DIVIDE, MODULO, MULTIPLY, NEGATE, SUBSTRACT};
    [ADD, SUBSTRACT, MULTIPLY, DIVIDE, MODULO, NEGATE].contains(&function)
}

/// Checks an expression over one variable.
pub(crate) fn check_variable(
    program: &Program,
    source: &str,
    variable: &str,
    schema: &Node,
) -> Result<(), String> {
    let mut scope = vec![(BIND.to_owned(), None), (variable.to_owned(), Some(schema))];
    walk(&program.expression, &mut scope, source).map(|_| ())
}

/// Checks an expression over untyped variables.
///
/// # Errors
///
/// The unknown name, with the reference's wording.
pub fn check_names(program: &Program, source: &str, variables: &[&str]) -> Result<(), String> {
    let mut scope: Vec<(String, Option<&Node>)> =
        variables.iter().map(|name| ((*name).to_owned(), None)).collect();
    walk(&program.expression, &mut scope, source).map(|_| ())
}

/// Returns the schema of an expression's value, or `None` if it is unknown.
fn walk<'s>(
    expression: &IdedExpr,
    scope: &mut Vec<(String, Option<&'s Node>)>,
    source: &str,
) -> Result<Option<&'s Node>, String> {
    match &expression.expr {
        Expr::Ident(name) => match scope.iter().rev().find(|(known, _)| known == name) {
            Some((_, schema)) => Ok(*schema),
            None if internal(name)
                || TYPE_NAMES.contains(&name.as_str())
                || SPACES.contains(&name.as_str()) =>
            {
                Ok(None)
            }
            None => Err(undeclared(source, name)),
        },
        Expr::Select(select) => {
            let Some(schema) = walk(&select.operand, scope, source)? else { return Ok(None) };
            if let Some(child) = schema.property_in_cel(&select.field) {
                return Ok(Some(child));
            }
            if let Additional::Schema(child) = &schema.additional {
                return Ok(Some(child));
            }
            // These are in every object, whether the schema has them or not.
            let implicit = ["metadata", "apiVersion", "kind"].contains(&select.field.as_str());
            let open = schema.preserve
                || schema.embedded
                || implicit
                || schema.type_name() != "object"
                || matches!(schema.additional, Additional::Any);
            if open {
                return Ok(None);
            }
            let needle = format!(".{}", select.field);
            Err(at(source, &needle, &format!("undefined field '{}'", select.field)))
        }
        Expr::Call(call) => {
            if let Some((name, value, result)) = bound(call)
                && scope.iter().any(|(known, _)| known == BIND)
            {
                let schema = walk(value, scope, source)?;
                scope.push((name.to_owned(), schema));
                let schema = walk(result, scope, source);
                scope.pop();
                return schema;
            }
            if let Some(on) = &call.target {
                walk(on, scope, source)?;
            }
            let arguments: Vec<Option<&Node>> =
                call.args.iter().map(|argument| walk(argument, scope, source)).collect::<Result<_, _>>()?;
            let first = arguments.first().copied().flatten();
            Ok(first.filter(|_| call.func_name == operators::INDEX).and_then(|list| list.items.as_deref()))
        }
        Expr::Comprehension(loop_) => {
            let range = walk(&loop_.iter_range, scope, source)?;
            let depth = scope.len();
            let item = range.and_then(|list| list.items.as_deref());
            walk(&loop_.accu_init, scope, source)?;
            scope.push((loop_.iter_var.clone(), item));
            scope.push((loop_.accu_var.clone(), None));
            let result = [&loop_.loop_cond, &loop_.loop_step, &loop_.result]
                .into_iter()
                .try_for_each(|part| walk(part, scope, source).map(|_| ()));
            scope.truncate(depth);
            result.map(|()| None)
        }
        Expr::List(list) => {
            for element in &list.elements {
                walk(element, scope, source)?;
            }
            Ok(None)
        }
        Expr::Map(_) | Expr::Struct(_) | Expr::Literal(_) | Expr::Unspecified => Ok(None),
    }
}

/// The name, the value and the result of `cel.bind(name, value, result)`.
fn bound(call: &CallExpr) -> Option<(&str, &IdedExpr, &IdedExpr)> {
    let Expr::Ident(space) = &call.target.as_ref()?.expr else { return None };
    let [name, value, result] = call.args.as_slice() else { return None };
    let Expr::Ident(name) = &name.expr else { return None };
    (space == "cel" && call.func_name == "bind").then_some((name, value, result))
}

/// Whether the parser generated this name.
fn internal(name: &str) -> bool {
    name.starts_with('@') || name.starts_with("__") || name.contains('.')
}

/// The total cost of the rules of a schema.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    total: u64,
}

// === impl Costs ===

impl Costs {
    /// Adds a rule of a node that may occur `times` times in one object. Returns errors about its cost.
    pub(crate) fn add(&mut self, program: &Program, schema: &Node, times: u64) -> Vec<String> {
        let mut scope = vec![("self".to_owned(), Some(schema)), ("oldSelf".to_owned(), None)];
        let once = steps(&program.expression, &mut scope);
        let cost = once.saturating_mul(times);
        self.total = self.total.saturating_add(cost);
        let mut wrong = Vec::new();
        if cost > RULE_BUDGET.saturating_mul(100) {
            wrong.push(exceeded("estimated rule cost exceeds budget"));
            if cost > SCHEMA_BUDGET {
                wrong.push(
                    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
                        .to_owned(),
                );
            }
        }
        wrong
    }

    /// Returns an error if the total cost is too high.
    pub(crate) fn total(&self) -> Option<String> {
        (self.total > SCHEMA_BUDGET.saturating_mul(100)).then(|| {
            exceeded("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget")
        })
    }
}

fn exceeded(what: &str) -> String {
    format!(
        "{what} by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// The number of loop iterations of an expression, at least one. Only loops count, so this is a lower bound of the
/// reference's estimate.
fn steps(expression: &IdedExpr, scope: &mut Vec<(String, Option<&Node>)>) -> u64 {
    match &expression.expr {
        Expr::Comprehension(loop_) => {
            let range = range_of(&loop_.iter_range, scope);
            let times = range.map_or(1, |list| {
                let items = list.items.as_deref();
                list.bounds.as_ref().and_then(|b| b.max_items).unwrap_or_else(|| items.map_or(1, most_items))
            });
            let depth = scope.len();
            scope.push((loop_.iter_var.clone(), range.and_then(|list| list.items.as_deref())));
            let body = steps(&loop_.loop_step, scope);
            scope.truncate(depth);
            times.saturating_mul(body).max(1)
        }
        Expr::Call(call) => {
            call.args.iter().chain(call.target.as_deref()).map(|part| steps(part, scope)).max().unwrap_or(1)
        }
        Expr::Select(select) => steps(&select.operand, scope),
        Expr::List(list) => list.elements.iter().map(|part| steps(part, scope)).max().unwrap_or(1),
        _ => 1,
    }
}

fn range_of<'s>(expression: &IdedExpr, scope: &[(String, Option<&'s Node>)]) -> Option<&'s Node> {
    match &expression.expr {
        Expr::Ident(name) => scope.iter().rev().find(|(known, _)| known == name)?.1,
        Expr::Select(select) => range_of(&select.operand, scope)?.property_in_cel(&select.field),
        _ => None,
    }
}

/// The most items of `schema` that fit into a request.
pub(crate) fn most_items(schema: &Node) -> u64 {
    MAX_REQUEST_BYTES / (smallest(schema) + 1)
}

/// The size of the smallest value, in bytes.
fn smallest(schema: &Node) -> u64 {
    match schema.type_name() {
        "object" => schema
            .required
            .iter()
            .filter_map(|name| {
                let child = schema.properties.get(name)?;
                // `"name":value,`
                Some(name.len() as u64 + 4 + smallest(child))
            })
            .sum::<u64>()
            .max(2),
        "string" | "array" => 2,
        "boolean" => 4,
        _ => 1,
    }
}
