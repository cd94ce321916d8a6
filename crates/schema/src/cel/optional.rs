//! Optional field selection (`self.?a.?b`), which the `cel` crate evaluates incorrectly: it returns an error for a missing
//! field.
//!
//! Before evaluation, chains are rewritten to an equivalent expression:
//! `has(self.a) && has(self.a.b) ? optional.of(self.a.b) : optional.none()`.

use kube_cel::cel::{
    common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators},
    parser::Parser,
};

/// Rewrites all chains in `expression`. `optional` is the name of a variable that is itself an optional value (`oldSelf` in
/// rules with optionalOldSelf).
pub(super) fn rewrite(expression: &mut IdedExpr, optional: Option<&str>) {
    let chain = match &expression.expr {
        Expr::Call(call) if call.func_name == operators::OPT_SELECT => chain(expression),
        Expr::Select(select) if !select.test => chain(expression),
        _ => None,
    };
    if let Some((mut base, fields)) = chain {
        rewrite(&mut base, optional);
        *expression = meaning(base, &fields, optional);
        return;
    }
    match &mut expression.expr {
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                rewrite(target, optional);
            }
            call.args.iter_mut().for_each(|argument| rewrite(argument, optional));
        }
        Expr::Comprehension(fold) => {
            for part in [
                &mut fold.iter_range,
                &mut fold.accu_init,
                &mut fold.loop_cond,
                &mut fold.loop_step,
                &mut fold.result,
            ] {
                rewrite(part, optional);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| rewrite(element, optional)),
        Expr::Select(select) => rewrite(&mut select.operand, optional),
        _ => {}
    }
}

/// Returns the base of a chain and the fields that it selects. Returns `None` if `expression` is not a chain with an optional
/// selection.
fn chain(expression: &IdedExpr) -> Option<(IdedExpr, Vec<String>)> {
    match &expression.expr {
        Expr::Call(call) if call.func_name == operators::OPT_SELECT => {
            let [operand, field] = call.args.as_slice() else { return None };
            let Expr::Literal(LiteralValue::String(field)) = &field.expr else { return None };
            let (base, mut fields) = chain(operand).unwrap_or_else(|| (operand.clone(), Vec::new()));
            fields.push(field.inner().to_owned());
            Some((base, fields))
        }
        Expr::Select(select) if !select.test => {
            let (base, mut fields) = chain(&select.operand)?;
            fields.push(select.field.clone());
            Some((base, fields))
        }
        _ => None,
    }
}

fn meaning(base: IdedExpr, fields: &[String], optional: Option<&str>) -> IdedExpr {
    let is_optional = matches!(&base.expr, Expr::Ident(name) if Some(name.as_str()) == optional);
    let mut condition = None;
    let mut value = base.clone();
    if is_optional {
        condition = Some(method(base.clone(), "hasValue"));
        value = method(base, "value");
    }
    for field in fields {
        let present = select(value.clone(), field, true);
        condition = Some(match condition {
            None => present,
            Some(before) => call(operators::LOGICAL_AND, None, vec![before, present]),
        });
        value = select(value, field, false);
    }
    let Some(condition) = condition else { return value };
    let of = optional_call("optional.of(0)", Some(value));
    call(operators::CONDITIONAL, None, vec![condition, of, optional_call("optional.none()", None)])
}

fn select(operand: IdedExpr, field: &str, test: bool) -> IdedExpr {
    node(Expr::Select(SelectExpr { operand: Box::new(operand), field: field.to_owned(), test }))
}

fn method(target: IdedExpr, name: &str) -> IdedExpr {
    call(name, Some(target), Vec::new())
}

fn call(name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args }))
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

/// Parses a call, and replaces its argument.
fn optional_call(source: &str, argument: Option<IdedExpr>) -> IdedExpr {
    let mut parsed = Parser::new().parse(source).unwrap_or_default();
    if let (Expr::Call(call), Some(argument)) = (&mut parsed.expr, argument) {
        call.args = vec![argument];
    }
    parsed
}
