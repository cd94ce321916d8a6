//! Conditions on one variable whose type is known, as the selectors of devices are.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{program::Program, types};
use crate::{
    StructuralSchema,
    structural::{Additional, Node},
};

/// The variable of a condition.
#[derive(Debug)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// The name of its type.
    pub type_name: &'a str,
    /// The schema of its value.
    pub schema: &'a StructuralSchema,
}

/// Checks that an expression compiles, knows the names in it, and may be a truth value.
///
/// # Errors
///
/// The compile error, in the words of the reference.
pub fn check_condition(source: &str, variable: &Variable<'_>) -> Result<(), String> {
    let failed = |why| format!("compilation failed: {why}");
    let program = Program::compile(source).map_err(failed)?;
    types::check_variable(&program, source, variable.name, variable.schema.root()).map_err(failed)?;
    match variable.type_of(&program.expression) {
        Some(name) if name != BOOL => Err(format!("must evaluate to bool or the unknown type, not {name}")),
        _ => Ok(()),
    }
}

const BOOL: &str = "bool";
/// The type of values whose type is only known at evaluation.
const DYN: &str = "dyn";
const ANY: &str = "google.protobuf.Any";

// === impl Variable ===

impl<'a> Variable<'a> {
    /// The name of an expression's type, as far as it is known.
    fn type_of(&self, expression: &IdedExpr) -> Option<String> {
        match &expression.expr {
            Expr::Literal(literal) => Some(of_literal(literal).to_owned()),
            Expr::List(list) => {
                let element = self.common(list.elements.iter());
                Some(format!("list({element})"))
            }
            Expr::Map(map) => {
                let entries = || {
                    map.entries.iter().filter_map(|entry| match &entry.expr {
                        EntryExpr::MapEntry(entry) => Some(entry),
                        EntryExpr::StructField(_) => None,
                    })
                };
                let key = self.common(entries().map(|entry| &entry.key));
                let value = self.common(entries().map(|entry| &entry.value));
                Some(format!("map({key}, {value})"))
            }
            Expr::Select(select) if select.test => Some(BOOL.to_owned()),
            Expr::Ident(name) if name == self.name => Some(self.type_name.to_owned()),
            Expr::Call(call) => match call.func_name.as_str() {
                "size" => Some("int".to_owned()),
                name if types::is_arithmetic(name) => {
                    Some(self.common(call.args.iter())).filter(|name| name != DYN && name != ANY)
                }
                _ => of_node(self.node_of(expression)?),
            },
            _ => of_node(self.node_of(expression)?),
        }
    }

    /// The type that all these have.
    fn common<'e>(&self, mut expressions: impl Iterator<Item = &'e IdedExpr>) -> String {
        let first = expressions.next().and_then(|first| self.type_of(first));
        first
            .filter(|first| expressions.all(|other| self.type_of(other).as_ref() == Some(first)))
            .unwrap_or_else(|| DYN.to_owned())
    }

    /// The schema of what an expression finds in the variable.
    fn node_of(&self, expression: &IdedExpr) -> Option<&'a Node> {
        match &expression.expr {
            Expr::Ident(name) => (name == self.name).then(|| self.schema.root()),
            Expr::Select(select) => {
                let operand = self.node_of(&select.operand)?;
                operand.property_in_cel(&select.field).or_else(|| entry(operand))
            }
            Expr::Call(call) if call.func_name == operators::INDEX => {
                entry(self.node_of(call.args.first()?)?)
            }
            _ => None,
        }
    }
}

/// Returns the schema of the entries of a map or list.
fn entry(node: &Node) -> Option<&Node> {
    match &node.additional {
        Additional::Schema(child) => Some(child),
        Additional::No | Additional::Any => node.items.as_deref(),
    }
}

fn of_literal(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => BOOL,
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null_type",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    }
}

/// The type of what a schema describes; none where that may be a truth value.
fn of_node(node: &Node) -> Option<String> {
    let below = |child: &Node| of_node(child).unwrap_or_else(|| ANY.to_owned());
    match node.type_name() {
        "string" => Some("string".to_owned()),
        "integer" => Some("int".to_owned()),
        "number" => Some("double".to_owned()),
        "array" => Some(format!("list({})", entry(node).map_or_else(|| ANY.to_owned(), below))),
        "object" => Some(format!("map(string, {})", below(entry(node)?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}, "on": {"type": "boolean"},
        "all": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties":
            {"x-kubernetes-preserve-unknown-fields": true}}}}}"#;

    fn check(source: &str) -> Result<(), String> {
        let schema = StructuralSchema::parse(SCHEMA);
        check_condition(source, &Variable { name: "thing", type_name: "example.Thing", schema: &schema })
    }

    #[test]
    fn what_may_be_a_truth_value_is_a_condition() {
        for source in [
            "true",
            "thing.on",
            "thing.name == 'x'",
            "thing.all['a'].b",
            "thing.all['a'].b > 3",
            "'a' in thing.all && thing.all['a'].exists(k, k == 'b')",
            "has(thing.all)",
            "cel.bind(a, thing.all['a'], a.b == 'c')",
        ] {
            assert_eq!(check(source), Ok(()), "{source}");
        }
    }

    #[test]
    fn what_is_something_else_is_named_by_its_type() {
        for (source, name) in [
            ("1", "int"),
            ("1.5 * 2.0", "double"),
            ("'a' + 'b'", "string"),
            ("null", "null_type"),
            ("[1, 2]", "list(int)"),
            ("[]", "list(dyn)"),
            ("{'a': [true]}", "map(string, list(bool))"),
            ("thing", "example.Thing"),
            ("thing.name", "string"),
            ("thing.all", "map(string, map(string, google.protobuf.Any))"),
            ("thing.all['a']", "map(string, google.protobuf.Any)"),
            ("size(thing.all)", "int"),
            ("thing.all.size()", "int"),
        ] {
            let expected = format!("must evaluate to bool or the unknown type, not {name}");
            assert_eq!(check(source), Err(expected), "{source}");
        }
    }

    #[test]
    fn unknown_names_and_fields_are_told() {
        let refused = |source| check(source).unwrap_err();
        assert!(
            refused("thing.nope")
                .starts_with("compilation failed: ERROR: <input>:1:6: undefined field 'nope'")
        );
        assert!(refused("cel.bind(a, thing, a.nope)").contains("undefined field 'nope'"));
        assert!(refused("cel.bind(a, thing.on, b)").contains("undeclared reference to 'b'"));
        assert!(refused("Thing{}").starts_with("compilation failed: ERROR: <input>:1:6: undeclared"));
        assert!(refused("nope").contains("undeclared reference to 'nope' (in container '')"));
        assert!(refused("thing.on &&").contains("Syntax error"));
    }
}
