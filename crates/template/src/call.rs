//! Calls of functions: evaluates the arguments and checks their types, as Go's reflection does.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::{
    Template,
    exec::{Quoted, State, Step},
    functions::{Function, builtin},
    method::Param,
    node::{Expr, Number},
    quote::quote,
    reflect::{Ty, Value},
};

impl<'a> State<'a> {
    pub(crate) fn call(
        &mut self,
        dot: &Value<'a>,
        name: &'a str,
        whole: Quoted<'a>,
        args: &'a [Expr],
        last: Option<Value<'a>>,
    ) -> Step<Value<'a>> {
        let args = args.get(1..).unwrap_or_default();
        let Some(function) = self.template.function(name).or_else(|| builtin(name)) else {
            return self.error(format!("{} is not a defined function", quote(name)));
        };
        let fixed = if function.variadic { function.params.len() - 1 } else { function.params.len() };
        let count = args.len() + usize::from(last.is_some());
        if function.variadic && count < fixed {
            return self
                .error(format!("wrong number of args for {name}: want at least {fixed} got {}", args.len()));
        }
        if !function.variadic && count != fixed {
            return self.error(format!("wrong number of args for {name}: want {fixed} got {count}"));
        }
        if name == "and" || name == "or" {
            return self.and_or(dot, name == "or", args, last);
        }
        let param = |i: usize| function.params[i.min(function.params.len() - 1)];
        let mut values = Vec::with_capacity(count);
        for (i, arg) in args.iter().enumerate() {
            values.push(self.argument(dot, arg, param(i))?);
        }
        if let Some(last) = last {
            values.push(self.validate(last, param(args.len()))?);
        }
        self.charge(values.iter().map(|value| weight(name, value)).fold(0, usize::saturating_add))?;
        let result = if name == "call" {
            let callee = args.first().map_or_else(|| values[0].type_name(), ToString::to_string);
            Err(match &values[0] {
                Value::Invalid => "call of nil".to_owned(),
                value => format!("non-function {callee} of type {}", value.type_name()),
            })
        } else {
            (function.call)(&values)
        };
        match result {
            Ok(Value::Str(text)) if text.len() > self.limits.output => {
                self.error(format!("output exceeds the limit of {} bytes", self.limits.output))
            }
            Ok(value) => {
                if let Value::Str(text) = &value {
                    self.charge(text.len())?;
                }
                Ok(value)
            }
            Err(message) => {
                self.at(whole);
                self.error(format!("error calling {name}: {message}"))
            }
        }
    }

    /// Evaluates `and` and `or`, which return the deciding argument and do not evaluate the arguments after it.
    fn and_or(
        &mut self,
        dot: &Value<'a>,
        or: bool,
        args: &'a [Expr],
        last: Option<Value<'a>>,
    ) -> Step<Value<'a>> {
        let mut value = Value::Invalid;
        for arg in args {
            value = self.argument(dot, arg, Param::Value)?;
            if value.is_true() == or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    pub(crate) fn argument(&mut self, dot: &Value<'a>, expr: &'a Expr, param: Param) -> Step<Value<'a>> {
        self.at_expr(expr);
        self.tick()?;
        let value = match expr {
            Expr::Dot(_) => dot.clone(),
            Expr::Nil(_) => {
                return match param {
                    Param::Any | Param::Value => Ok(Value::Invalid),
                    Param::Pointer(to) => Ok(Value::Typed(Ty::Ptr(to()), None)),
                    Param::String | Param::Int => {
                        self.error(format!("cannot assign nil to {}", param.name()))
                    }
                };
            }
            Expr::Field(_, path) => self.field_chain(dot, expr, dot.clone(), path, &[], None)?,
            Expr::Variable(..) => self.variable(dot, expr, &[], None)?,
            Expr::Pipe(pipe) => self.pipeline(dot, pipe)?,
            Expr::Ident(_, name) => self.call(dot, name, Quoted::Expr(expr), &[], None)?,
            Expr::Chain { .. } => self.chain(dot, expr, &[], None)?,
            Expr::Bool(..) | Expr::Number(..) | Expr::Str { .. } => {
                return match (param, expr) {
                    (Param::Any | Param::Value, _) => self.literal(dot, expr),
                    (Param::String, Expr::Str { text, .. }) => Ok(Value::Str(Cow::Borrowed(text))),
                    (Param::Int, Expr::Number(_, Number { int: Some(value), .. })) => Ok(Value::Int(*value)),
                    (Param::Pointer(to), _) => {
                        self.error(format!("can't handle {expr} for arg of type *{}", to()))
                    }
                    (Param::String, _) => self.error(format!("expected string; found {expr}")),
                    (Param::Int, _) => self.error(format!("expected integer; found {expr}")),
                };
            }
        };
        self.validate(value, param)
    }

    /// Checks that a value can be an argument. Dereferences one pointer if that is needed.
    pub(crate) fn validate(&mut self, value: Value<'a>, param: Param) -> Step<Value<'a>> {
        let expected = match param {
            Param::Any | Param::Value => return Ok(value),
            Param::Pointer(to) => return self.pointer(value, to()),
            Param::String => "string",
            Param::Int => "int",
        };
        match value {
            Value::Invalid => self.error(format!("invalid value; expected {expected}")),
            value if value.type_name() == expected => Ok(value),
            Value::Typed(Ty::Ptr(inner), json) if inner.to_string() == expected => match json {
                Some(_) => Ok(Value::typed(*inner, json)),
                None => self.error(format!("dereference of nil pointer of type {expected}")),
            },
            value => {
                self.error(format!("wrong type for value; expected {expected}; got {}", value.type_name()))
            }
        }
    }

    /// Converts a value for a parameter that is a pointer to `to`. The value may be such a pointer, or of the type `to`.
    fn pointer(&mut self, value: Value<'a>, to: &'static Ty) -> Step<Value<'a>> {
        let expected = Ty::Ptr(to).to_string();
        match value {
            Value::Invalid => Ok(Value::Typed(Ty::Ptr(to), None)),
            Value::Typed(ty, json) if ty.to_string() == expected => Ok(Value::Typed(ty, json)),
            Value::Typed(ty, Some(json)) if ty.to_string() == to.to_string() => {
                Ok(Value::Typed(Ty::Ptr(to), Some(json)))
            }
            value => {
                self.error(format!("wrong type for value; expected {expected}; got {}", value.type_name()))
            }
        }
    }
}

/// The bytes of an argument that a function reads.
fn weight(function: &str, value: &Value<'_>) -> usize {
    match (function, value) {
        (_, Value::Str(text)) => text.len(),
        ("index" | "len" | "slice" | "not" | "call", _) => 0,
        (_, Value::Typed(_, Some(json))) => size(json),
        _ => 0,
    }
}

/// The approximate number of bytes that a value prints.
fn size(json: &Json) -> usize {
    match json {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(|item| 1 + size(item)).sum(),
        Json::Object(map) => map.iter().map(|(key, item)| key.len() + size(item)).sum(),
        _ => 8,
    }
}

impl Template {
    fn function(&self, name: &str) -> Option<&'static Function> {
        self.functions.iter().find(|f| f.name == name)
    }
}
