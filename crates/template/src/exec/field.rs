//! Fields: the value of `.A.B`, or Go's error if it does not exist.

use super::{State, Step};
use crate::{
    method::{Answer, Call, Method, Param, Receiver, go},
    node::Expr,
    quote::quote,
    reflect::{Ty, Value, scalar_field},
};

impl<'a> State<'a> {
    pub(crate) fn chain(
        &mut self,
        dot: &Value<'a>,
        expr: &'a Expr,
        args: &'a [Expr],
        last: Option<&Value<'a>>,
    ) -> Step<Value<'a>> {
        let Expr::Chain { node, fields, .. } = expr else { return Ok(Value::Invalid) };
        self.at_expr(expr);
        if matches!(**node, Expr::Nil(_)) {
            return self.error(format!("indirection through explicit nil in {expr}"));
        }
        let receiver = self.argument(dot, node, Param::Any)?;
        self.field_chain(dot, expr, receiver, fields, args, last)
    }

    pub(crate) fn field_chain(
        &mut self,
        dot: &Value<'a>,
        expr: &'a Expr,
        receiver: Value<'a>,
        path: &'a [Box<str>],
        args: &'a [Expr],
        last: Option<&Value<'a>>,
    ) -> Step<Value<'a>> {
        let mut value = receiver;
        let end = path.len() - 1;
        // An entry of a map of interfaces is an interface, whatever it contains.
        let mut interface = false;
        for (i, name) in path.iter().enumerate() {
            let (args, last) = if i == end { (args, last) } else { (&[][..], None) };
            let has_args = args.len() > 1 || last.is_some();
            self.at_expr(expr);
            self.tick()?;
            let next_interface = matches!(value, Value::Typed(Ty::Map(_, Ty::Any), _));
            if let Some((method, receiver)) = Method::of(&value, name) {
                value = self.invoke(dot, expr, method, receiver, args, last)?;
                interface = false;
                continue;
            }
            value = self.field(value, name, has_args, interface)?;
            interface = next_interface;
        }
        Ok(value)
    }

    /// Calls a method, as Go does by reflection.
    fn invoke(
        &mut self,
        dot: &Value<'a>,
        expr: &'a Expr,
        method: &'static Method,
        receiver: Receiver<'a>,
        args: &'a [Expr],
        last: Option<&Value<'a>>,
    ) -> Step<Value<'a>> {
        let args = args.get(1..).unwrap_or_default();
        let (name, arity) = (method.name, method.params.len());
        let count = args.len() + usize::from(last.is_some());
        if count != arity {
            return self.error(format!("wrong number of args for {name}: want {arity} got {count}"));
        }
        let answer = match &method.call {
            Call::Gives(answer) => answer,
            Call::Nothing => {
                return self.error(format!("function {name} has 0 return values; should be 1 or 2"));
            }
            Call::And(second) => {
                return self.error(format!(
                    "invalid function signature for {name}: second return value should be error; is {second}"
                ));
            }
        };
        let mut values = Vec::with_capacity(count);
        for (arg, param) in args.iter().zip(method.params) {
            values.push(self.argument(dot, arg, *param)?);
        }
        if let (Some(last), Some(param)) = (last, method.params.last()) {
            values.push(self.validate(last.clone(), *param)?);
        }
        match answer(receiver, &values) {
            Ok(Answer::Value(value)) => Ok(value),
            Ok(Answer::Made(ty, json)) => {
                let (json, next) = self.next_slot.keep(json);
                self.next_slot = next;
                Ok(Value::typed(ty, Some(json)))
            }
            Err(message) => {
                self.at_expr(expr);
                self.error(format!("error calling {name}: {message}"))
            }
        }
    }

    fn field(&mut self, receiver: Value<'a>, name: &str, has_args: bool, interface: bool) -> Step<Value<'a>> {
        if matches!(receiver, Value::Invalid) {
            return if interface {
                self.error(format!("nil pointer evaluating {}.{name}", Ty::Any))
            } else {
                self.error(format!("nil data; no entry for key {}", quote(name)))
            };
        }
        // Formatting a type is slower than looking up the field, so it is only done for messages.
        let named = receiver.clone();
        let type_name = || if interface { Ty::Any.to_string() } else { named.type_name() };
        let (value, nil) = receiver.indirect();
        if has_args
            && let Value::Typed(Ty::Struct(s), _) = value
            && Value::has_field(s, name)
        {
            return self.error(format!("{name} has arguments but cannot be invoked as function"));
        }
        match &value {
            Value::Typed(Ty::Struct(s), json) => match Value::field(s, *json, name) {
                Some(Ok(field)) => return Ok(field),
                Some(Err(inner)) => {
                    return self.error(format!(
                        "reflect: indirection through nil pointer to embedded struct {inner}"
                    ));
                }
                None => {}
            },
            Value::Typed(Ty::Map(..), _) => {
                let entry = value.entry(name).filter(|_| !has_args);
                return match entry {
                    Some(entry) => Ok(entry),
                    None if lacks(&named, name) => {
                        self.error(format!("method {name} of {} is not available here", type_name()))
                    }
                    None if has_args => self.error(format!("{name} is not a method but has arguments")),
                    None => self.error(format!("map has no entry for key {}", quote(name))),
                };
            }
            Value::Typed(Ty::Ptr(Ty::Url), None) if scalar_field(Ty::Url, None, name).is_none() => {}
            Value::Typed(Ty::Ptr(inner), None) if nil => {
                let known = match inner {
                    Ty::Struct(s) => Value::has_field(s, name),
                    _ => true,
                };
                if known {
                    return self.error(format!("nil pointer evaluating {}.{name}", type_name()));
                }
            }
            Value::Typed(ty, json) => {
                if let Some(field) = scalar_field(*ty, *json, name) {
                    return Ok(field);
                }
            }
            _ => {}
        }
        if lacks(&named, name) {
            return self.error(format!("method {name} of {} is not available here", type_name()));
        }
        self.error(format!("can't evaluate field {name} in type {}", type_name()))
    }
}

/// Whether Go has a method of this name for a value. Those that the tables have were called by now.
fn lacks(value: &Value<'_>, name: &str) -> bool {
    matches!(value, Value::Typed(ty, _) if go::has(*ty, name))
}
