//! Limits the cost of evaluating an expression.
//!
//! The `cel` crate evaluates without limits, and copies values deeply: a few nested loops would take very long, and a few
//! concatenations would use all memory. If an expression can do neither for the given value, it is evaluated as it is. In any
//! other expression, each value that is created or copied costs its size, and each iteration of a loop costs the size of its
//! element and of the accumulated value. When the budget is spent, every further step is an error, so the evaluation ends.

use std::cell::Cell;

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, ResolveResult,
    common::{
        ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators},
        types::{CelBytes, CelList, CelMap, CelString},
        value::Val,
    },
    objects::Key,
};
use serde_json::Value;

type Cel = kube_cel::cel::Value;

/// The size from which it makes no difference to a budget how large a value is.
pub(super) const LARGE: u64 = 1_000_000;

/// The budget of one expression, in steps.
const OF_EXPRESSION: u64 = 2_000_000;
/// The budget of all rules of one object, in steps.
pub(super) const OF_OBJECT: u64 = 10_000_000;
/// If the estimated cost is at most this many steps, the expression is evaluated without counting.
const UNWATCHED: u64 = 1_000_000;
/// The steps for compiling a regular expression.
const REGEX: u64 = 20_000;
/// The bytes of text that cost one step.
pub(super) const BYTES: usize = 16;

/// A function that charges for the element of a loop and for the accumulated value.
const TURN: &str = "@turn";
/// A function that charges for the value of its argument.
const PAID: &str = "@paid";

/// The error of cel-go for an expression that exceeds its budget.
pub(super) const EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

// The functions of the library get nothing of the caller, so the budget of an evaluation is that of its thread.
thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static EXHAUSTED: Cell<bool> = const { Cell::new(false) };
}

/// An expression that can be evaluated within a budget.
#[derive(Debug, Clone)]
pub(super) struct MeteredExpression {
    plain: IdedExpr,
    watched: IdedExpr,
    nodes: u64,
    loops: u32,
    /// Whether it calls a function whose result may be much larger than its arguments.
    grows: bool,
}

/// Charges steps to the budget.
pub(super) fn spend(steps: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get();
    if left < steps {
        LEFT.set(0);
        EXHAUSTED.set(true);
        return Err(ExecutionError::function_error("cel", EXCEEDED));
    }
    LEFT.set(left - steps);
    Ok(())
}

/// Charges the steps for compiling a regular expression.
pub(super) fn spend_regex() -> Result<(), ExecutionError> {
    spend(REGEX)
}

/// The size of a value in steps. Stops counting above `most`.
pub(super) fn size(value: &Value, most: u64) -> u64 {
    let mut sum = 1;
    match value {
        Value::String(text) => sum += (text.len() / BYTES) as u64,
        Value::Array(items) => {
            for item in items {
                sum += if sum > most { 0 } else { size(item, most - sum.min(most)) };
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                sum += 1 + (name.len() / BYTES) as u64;
                sum += if sum > most { 0 } else { size(value, most - sum.min(most)) };
            }
        }
        _ => {}
    }
    sum
}

// === impl MeteredExpression ===

impl MeteredExpression {
    pub(super) fn new(plain: IdedExpr) -> Self {
        let mut watched = plain.clone();
        let mut watch = CostInstrumenter { names: Vec::new(), nodes: 0, loops: 0, grows: false };
        watch.expression(&mut watched);
        Self { plain, watched, nodes: watch.nodes, loops: watch.loops, grows: watch.grows }
    }

    pub(super) fn expression(&self) -> &IdedExpr {
        &self.plain
    }

    /// Evaluates the expression over values of `size` steps with a budget of `left`. Subtracts the counted steps from `left`.
    pub(super) fn resolve(&self, scope: &Context<'_>, size: u64, left: &mut u64) -> ResolveResult {
        let all = size.saturating_add(self.nodes);
        // An upper bound: each of the nested loops visits at most all there is, and so does what is in the innermost one.
        let most = self.nodes.saturating_mul(all.saturating_pow(self.loops + 1));
        let allowance = OF_EXPRESSION.min(*left);
        LEFT.set(allowance);
        EXHAUSTED.set(false);
        let expression = if self.grows || most > UNWATCHED { &self.watched } else { &self.plain };
        // The library panics on some values (`%.99999f`). Its state is not used afterwards.
        let evaluated = std::panic::AssertUnwindSafe(|| Cel::resolve(expression, scope));
        let result = std::panic::catch_unwind(evaluated).unwrap_or_else(|_| {
            Err(ExecutionError::function_error("cel", "the expression cannot be evaluated"))
        });
        *left -= allowance - LEFT.get();
        // `||` and `&&` absorb errors, and a rule must not hold because its budget is spent.
        if EXHAUSTED.get() { Err(ExecutionError::function_error("cel", EXCEEDED)) } else { result }
    }
}

/// Rewrites an expression so that it charges for its steps.
struct CostInstrumenter {
    /// The variables of the enclosing loops.
    names: Vec<String>,
    nodes: u64,
    loops: u32,
    grows: bool,
}

// === impl CostInstrumenter ===

impl CostInstrumenter {
    fn expression(&mut self, expression: &mut IdedExpr) {
        self.nodes += 1;
        let pays = match &mut expression.expr {
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(fold) => {
                self.loops += 1;
                self.expression(&mut fold.iter_range);
                self.expression(&mut fold.accu_init);
                let outside = self.names.len();
                self.names.push(fold.iter_var.clone());
                for part in [&mut fold.loop_cond, &mut fold.loop_step, &mut fold.result] {
                    self.expression(part);
                }
                self.names.truncate(outside);
                let turn = call(TURN, vec![ident(&fold.iter_var), ident(&fold.accu_var)]);
                let step = std::mem::take(&mut fold.loop_step);
                fold.loop_step = call(operators::CONDITIONAL, vec![turn, step, ident(&fold.accu_var)]);
                None
            }
            Expr::List(list) => {
                list.elements.iter_mut().for_each(|element| self.used(element));
                Some(PAID)
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.used(&mut entry.key);
                        self.used(&mut entry.value);
                    }
                }
                Some(PAID)
            }
            Expr::Select(select) => {
                self.expression(&mut select.operand);
                (!select.test).then_some(PAID)
            }
            Expr::Literal(LiteralValue::String(text)) => {
                self.nodes += (text.inner().len() / BYTES) as u64;
                None
            }
            _ => None,
        };
        if let Some(function) = pays {
            *expression = call(function, vec![std::mem::take(expression)]);
        }
    }

    /// Rewrites an expression whose value is copied where it is used. A variable must be charged for too.
    fn used(&mut self, expression: &mut IdedExpr) {
        let is_name = matches!(&expression.expr, Expr::Ident(name) if !name.starts_with('@'));
        self.expression(expression);
        if is_name {
            *expression = call(PAID, vec![std::mem::take(expression)]);
        }
    }

    /// Rewrites a call, and returns the function that charges for its value, if needed.
    fn call(&mut self, call: &mut CallExpr) -> Option<&'static str> {
        let gathers = call.func_name == operators::ADD
            && matches!(call.args.first().map(|first| &first.expr), Some(Expr::Ident(name)) if name.starts_with('@'));
        if let Some(target) = &mut call.target {
            match &target.expr {
                // a name before a function is a variable, or part of the function's name
                Expr::Ident(name) if !self.is_variable(name) => self.nodes += 1,
                _ => self.used(target),
            }
        }
        call.args.iter_mut().for_each(|argument| self.used(argument));
        match call.func_name.as_str() {
            // the iteration of the loop is charged
            operators::ADD if gathers => None,
            operators::ADD | operators::INDEX | operators::OPT_INDEX => Some(PAID),
            // the results are small, or equal to one of the arguments
            name if name.starts_with(['_', '!', '-', '@']) || name == operators::IN => None,
            "size" | "startsWith" | "endsWith" | "contains" | "exists" | "isSorted" | "hasValue" => None,
            "replace" | "join" | "format" | "quote" | "split" | "range" | "matches" | "find" | "findAll"
            | "distinct" | "flatten" | "intersects" | "equivalent" | "sort" | "sum" | "quantity" => {
                self.grows = true;
                Some(PAID)
            }
            _ => Some(PAID),
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        matches!(name, "self" | "oldSelf" | "object" | "oldObject" | "request")
            || self.names.iter().any(|known| known == name)
    }
}

fn ident(name: &str) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }
}

fn call(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) }
}

/// Adds the functions that rewritten expressions call, and replaces functions that would do too much work before they could
/// be charged.
pub(super) fn register(library: &mut Context<'_>) {
    library.add_function(TURN, |call: &FunctionContext<'_, '_>| -> ResolveResult {
        for name in call.args {
            if let Expr::Ident(name) = &name.expr
                && let Some(value) = call.ptx.get_variable(name)
            {
                spend(1 + made(value.as_ref()))?;
            }
        }
        Ok(Cel::Bool(true))
    });
    library.add_function(PAID, |call: &FunctionContext<'_, '_>| charge_argument(call));
}

fn charge_argument(call: &FunctionContext<'_, '_>) -> ResolveResult {
    spend(1)?;
    let [argument] = call.args else { return Err(call.error("takes one argument")) };
    let value = call.ptx.resolve(argument)?;
    spend(weight(&value))?;
    Ok(value)
}

/// The size of a value in steps.
pub(super) fn weight(value: &Cel) -> u64 {
    1 + match value {
        Cel::List(items) => items.iter().map(weight).sum(),
        Cel::Map(map) => map.map.iter().map(|(key, value)| key_weight(key) + weight(value)).sum(),
        Cel::String(text) => (text.len() / BYTES) as u64,
        Cel::Bytes(bytes) => (bytes.len() / BYTES) as u64,
        _ => 0,
    }
}

fn key_weight(key: &Key) -> u64 {
    match key {
        Key::String(text) => 1 + (text.len() / BYTES) as u64,
        _ => 1,
    }
}

/// Like [`weight`], for a value in the form that variables have.
fn made(value: &dyn Val) -> u64 {
    1 + if let Some(list) = value.downcast_ref::<CelList>() {
        list.inner().iter().map(|item| made(item.as_ref())).sum()
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        map.inner().values().map(|value| 1 + made(value.as_ref())).sum()
    } else if let Some(text) = value.downcast_ref::<CelString>() {
        (text.inner().len() / BYTES) as u64
    } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
        (bytes.inner().len() / BYTES) as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::Program, *};
    use crate::StructuralSchema;

    fn holds(source: &str, value: &Value) -> Result<bool, String> {
        Program::compile(source)?.runnable().holds_within(&[("self", value)], 500_000)
    }

    #[test]
    fn what_would_take_for_ever_or_all_memory_ends() {
        let numbers = json!((0..3000).collect::<Vec<_>>());
        let nested = (0..12).fold("true".to_owned(), |inner, i| format!("self.all(x{i}, {inner})"));
        let few = json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let doubled =
            (0..40).fold("[self]".to_owned(), |inner, i| format!("{inner}.map(x{i}, [x{i}, x{i}])"));
        let text = json!("x".repeat(100_000));
        let replaced = format!("'x'{}.size() > 0", ".replace('x', 'xxxxxxxxxxxxxxxx')".repeat(40));
        let added = format!("[[self]]{} != []", ".map(x, x + x)".repeat(40));
        let big = format!("[{}].size() > 0", vec!["self"; 5000].join(","));
        for (source, value) in [
            (nested.as_str(), &few),
            ("self.all(x, self.all(y, self.all(z, x + y + z >= 0)))", &numbers),
            ("self.map(x, self).map(x, self).map(x, self).size() > 0", &numbers),
            ("self.all(x, self.exists(y, self.filter(z, z > y).size() > x)) || true", &numbers),
            (&doubled[..], &json!("a")),
            (&replaced, &json!("a")),
            (&added, &json!("a")),
            (&big, &text),
            ("lists.range(1000000000000).size() > 0", &few),
            (
                "sets.contains(self.map(x, x + 1), self) && sets.equivalent(self, self)",
                &json!((0..20_000).collect::<Vec<_>>()),
            ),
            ("self.all(x, !'a'.matches('(z|b|c){1,50}' + string(x)))", &numbers),
            ("self.all(x, 'a'.find('(z|b|c){1,50}' + string(x)) == '')", &numbers),
            ("self.all(x, 'a'.findAll('(z|b|c){1,50}' + string(x)) == [])", &numbers),
        ] {
            assert_eq!(holds(source, value), Err(EXCEEDED.to_owned()), "{source}");
        }
    }

    #[test]
    fn patterns_have_the_classes_of_go() {
        for source in [
            "self.find('[0-9]+') == '12' && self.find('x') == ''",
            "self.find('\\\\d+$') == '' && self.findAll('\\\\d') == ['1', '2']",
            "self.findAll('[0-9]', 1) == ['1'] && self.findAll('[0-9]', -1).size() == 2",
        ] {
            assert_eq!(holds(source, &json!("12\u{663}")), Ok(true), "{source}");
        }
    }

    #[test]
    fn what_panics_in_the_library_is_an_error() {
        for source in ["'%.99999f'.format([1.0]) != ''", "size(", "Foo{a: 1} == 1", "{Foo{}: 1} == {}"] {
            assert!(holds(source, &json!(1)).is_err(), "{source}");
        }
    }

    #[test]
    fn watched_expressions_have_the_values_of_others() {
        let list = json!({"a": (0..200).map(|i| json!({"n": i, "s": format!("s{i}")})).collect::<Vec<_>>()});
        for (source, expected) in [
            ("self.a.all(x, self.a.exists(y, y.n == x.n && y.s == x.s))", true),
            ("self.a.map(x, x.n * 2).filter(x, x % 4 == 0).size() == 100", true),
            ("self.a.map(x, x.n > 100, x.s).join(',').startsWith('s101,')", true),
            ("self.a.exists_one(x, x.s.replace('s', 't', 1) == 't7')", true),
            ("self.a.all(x, has(x.n) && !has(x.m))", true),
            ("self.?b.hasValue() || self.a[3].n == 3 && {'k': self.a[4].s}['k'] == 's4'", true),
            ("type(self.a) == list && type(self.a[0].s) == string && type(1) != type(1.0)", true),
            ("'%s-%d'.format([self.a[1].s, self.a[1].n]) == 's1-1'", true),
            (
                "sets.contains(self.a.map(x, x.n), [3, 4]) && self.a.map(x, x.n % 2).distinct() == [0, 1]",
                true,
            ),
            ("self.a.exists(x, x.n > 500)", false),
        ] {
            assert_eq!(holds(source, &list), Ok(expected), "{source}");
            let program = Program::compile(source).unwrap().runnable();
            assert_eq!(program.holds(&[("self", &list)]), Ok(expected), "{source}");
        }
    }

    #[test]
    fn messages_are_paid_from_the_budget_of_the_object() {
        let rule = json!({"rule": "false", "message": "plain",
            "messageExpression": "lists.range(500000).size() > 0 ? 'computed' : ''"});
        let items = json!({"type": "integer", "x-kubernetes-validations": [rule]});
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
        let schema = StructuralSchema::of(&schema, false);
        let causes = schema.validate(&json!({"l": vec![1; 30]}), None);
        let computed = causes.iter().filter(|cause| cause.message.ends_with("computed")).count();
        assert!((1..=10).contains(&computed) && causes.len() == 30, "{computed} of {}", causes.len());
    }

    #[test]
    fn a_rule_beyond_its_budget_refuses_the_object_and_ends_the_others() {
        let rule = |rule: &str| json!({"rule": rule, "message": "no"});
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [
                rule("self.l.all(a, self.l.all(b, self.l.all(c, true)))"), rule("false")]});
        let version = json!({"schema": {"openAPIV3Schema": schema}});
        let schema = StructuralSchema::compile(&json!({}), &version);
        let causes = schema.validate(&json!({"l": vec![1; 2000]}), None);
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert_eq!(
            causes[0].message,
            "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules \
             will be run due to call cost exceeds limit for rule: no"
        );
    }
}
