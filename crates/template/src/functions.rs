//! The functions that templates can call: Go's built-in ones, and the type of additional ones.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Value as Json;

use crate::{
    escape::{html, js, urlquery},
    format::{print, printf, println},
    method::Param,
    reflect::{Kind, Ty, Value},
};

/// A function that templates can call.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The types of its parameters. With `variadic`, the last one repeats any number of times.
    pub params: &'static [Param],
    /// Whether the last parameter repeats.
    pub variadic: bool,
    /// The function itself; `Err` is the message that follows `error calling NAME: `.
    pub call: for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, String>,
}

impl Function {
    /// A function that takes exactly these parameters.
    pub const fn new(
        name: &'static str,
        params: &'static [Param],
        call: for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, String>,
    ) -> Self {
        Self { name, params, variadic: false, call }
    }
}

const fn variadic(
    name: &'static str,
    params: &'static [Param],
    call: for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, String>,
) -> Function {
    Function { variadic: true, ..Function::new(name, params, call) }
}

const ANY: &[Param] = &[Param::Any];
const VALUE: &[Param] = &[Param::Value];
const TWO: &[Param] = &[Param::Value, Param::Value];

/// `and`, `or` and `call` have special evaluation rules. Their entries only declare the parameters.
static BUILTINS: &[Function] = &[
    variadic("and", TWO, |_| Ok(Value::Invalid)),
    variadic("call", TWO, |_| Ok(Value::Invalid)),
    variadic("eq", TWO, eq),
    Function::new("ge", TWO, |v| compare(&v[0], &v[1]).map(|o| Value::Bool(o != Ordering::Less))),
    Function::new("gt", TWO, |v| compare(&v[0], &v[1]).map(|o| Value::Bool(o == Ordering::Greater))),
    variadic("html", ANY, |v| Ok(text(html(&print_indirect(v))))),
    variadic("index", TWO, index),
    variadic("js", ANY, |v| Ok(text(js(&print_indirect(v))))),
    Function::new("le", TWO, |v| compare(&v[0], &v[1]).map(|o| Value::Bool(o != Ordering::Greater))),
    Function::new("len", VALUE, len),
    Function::new("lt", TWO, |v| compare(&v[0], &v[1]).map(|o| Value::Bool(o == Ordering::Less))),
    Function::new("ne", TWO, |v| equal(&v[0], &v[1]).map(|same| Value::Bool(!same))),
    Function::new("not", VALUE, |v| Ok(Value::Bool(!v[0].is_true()))),
    variadic("or", TWO, |_| Ok(Value::Invalid)),
    variadic("print", ANY, |v| Ok(text(print(v)))),
    variadic("printf", &[Param::String, Param::Any], |v| printf(v[0].as_str(), &v[1..]).map(text)),
    variadic("println", ANY, |v| Ok(text(println(v)))),
    variadic("slice", TWO, slice),
    variadic("urlquery", ANY, |v| Ok(text(urlquery(&print_indirect(v))))),
];

/// The built-in function `name`.
pub(crate) fn builtin(name: &str) -> Option<&'static Function> {
    BUILTINS.binary_search_by(|f| f.name.cmp(name)).ok().map(|i| &BUILTINS[i])
}

fn text<'a>(text: String) -> Value<'a> {
    Value::Str(Cow::Owned(text))
}

/// Prints values for the escaping functions, which dereference pointers instead of printing addresses.
fn print_indirect(values: &[Value<'_>]) -> String {
    let values: Vec<_> = values.iter().map(|v| v.clone().indirect().0).collect();
    if let [Value::Str(only)] = &values[..] {
        return only.clone().into_owned();
    }
    print(&values)
}

// === comparison ===

/// The kind of a value that Go can compare. Returns `None` for nil pointers, lists, maps and structs.
fn basic(value: &Value<'_>) -> Option<Kind> {
    match value.kind() {
        kind @ (Kind::Bool | Kind::Int | Kind::Float | Kind::Str) => Some(kind),
        _ => None,
    }
}

fn eq<'a>(values: &[Value<'a>]) -> Result<Value<'a>, String> {
    if values.len() < 2 {
        return Err("missing argument for comparison".to_owned());
    }
    for other in &values[1..] {
        if equal(&values[0], other)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    let (left, right) = (basic(a), basic(b));
    if left != right {
        if matches!(a, Value::Invalid) || matches!(b, Value::Invalid) {
            return Ok(false);
        }
        return Err(format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name()));
    }
    Ok(match left {
        Some(Kind::Bool) => a.as_bool() == b.as_bool(),
        Some(Kind::Int) => a.as_int() == b.as_int(),
        #[expect(clippy::float_cmp, reason = "eq is exact in Go too")]
        Some(Kind::Float) => a.as_float() == b.as_float(),
        Some(_) => a.as_str() == b.as_str(),
        None if a.is_nil() || b.is_nil() => a.is_nil() == b.is_nil(),
        None => {
            for value in [a, b] {
                if matches!(value.kind(), Kind::Slice | Kind::Map) {
                    return Err(format!(
                        "non-comparable types {}: {}, {}: {}",
                        print(std::slice::from_ref(a)),
                        a.type_name(),
                        b.type_name(),
                        print(std::slice::from_ref(b)),
                    ));
                }
            }
            match (a, b) {
                // Two pointers are equal if they point to the same place.
                (Value::Typed(Ty::Ptr(_), Some(a)), Value::Typed(Ty::Ptr(_), Some(b))) => {
                    std::ptr::eq(*a, *b)
                }
                (Value::Typed(_, a), Value::Typed(_, b)) => a == b,
                _ => false,
            }
        }
    })
}

fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, String> {
    match (basic(a), basic(b)) {
        (None, _) | (_, None) => Err("invalid type for comparison".to_owned()),
        (Some(left), Some(right)) if left != right => Err("incompatible types for comparison".to_owned()),
        (Some(Kind::Int), _) => Ok(a.as_int().cmp(&b.as_int())),
        (Some(Kind::Float), _) => Ok(a.as_float().total_cmp(&b.as_float())),
        (Some(Kind::Str), _) => Ok(a.as_str().cmp(b.as_str())),
        _ => Err("invalid type for comparison".to_owned()),
    }
}

// === containers ===

fn len<'a>(values: &[Value<'a>]) -> Result<Value<'a>, String> {
    let (value, nil) = values[0].clone().indirect();
    if nil {
        return Err("len of nil pointer".to_owned());
    }
    let length = match value.kind() {
        Kind::Str => value.as_str().len(),
        Kind::Slice => value.elements().len(),
        Kind::Map => value.len_of_map(),
        Kind::Invalid => return Err("len of nil pointer".to_owned()),
        _ => return Err(format!("len of type {}", value.type_name())),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// Converts a value to a position in something of `length`, or returns Go's error.
fn position(value: &Value<'_>, length: usize) -> Result<usize, String> {
    match value.kind() {
        Kind::Int => {
            let index = value.as_int();
            usize::try_from(index)
                .ok()
                .filter(|i| *i <= length)
                .ok_or_else(|| format!("index out of range: {index}"))
        }
        Kind::Invalid => Err("cannot index slice/array with nil".to_owned()),
        _ => Err(format!("cannot index slice/array with type {}", value.type_name())),
    }
}

fn index<'a>(values: &[Value<'a>]) -> Result<Value<'a>, String> {
    let mut item = values[0].clone();
    if matches!(item, Value::Invalid) {
        return Err("index of untyped nil".to_owned());
    }
    for key in &values[1..] {
        let (value, nil) = item.indirect();
        if nil {
            return Err("index of nil pointer".to_owned());
        }
        item = match value.kind() {
            Kind::Slice => {
                let elements = value.elements();
                let i = position(key, elements.len())?;
                let Some(json) = elements.get(i) else {
                    return Err(format!("reflect: slice index out of range: {i}"));
                };
                Value::typed(value.element_type(), Some(json))
            }
            Kind::Str => {
                let bytes = value.as_str().as_bytes();
                let i = position(key, bytes.len())?;
                match bytes.get(i) {
                    Some(byte) => Value::Int((*byte).into()),
                    None => return Err(format!("index out of range: {i}")),
                }
            }
            Kind::Map => {
                if key.kind() != Kind::Str {
                    return Err(match key {
                        Value::Invalid => "value is nil; should be of type string".to_owned(),
                        key => format!("value has type {}; should be string", key.type_name()),
                    });
                }
                value.entry(key.as_str()).unwrap_or_else(|| Value::typed(value.element_type(), None))
            }
            Kind::Invalid => return Err("index of nil pointer".to_owned()),
            _ => return Err(format!("can't index item of type {}", value.type_name())),
        };
    }
    Ok(item)
}

fn slice<'a>(values: &[Value<'a>]) -> Result<Value<'a>, String> {
    let (value, _) = values[0].clone().indirect();
    let bounds = &values[1..];
    let length = match value.kind() {
        Kind::Invalid => return Err("slice of untyped nil".to_owned()),
        Kind::Str if bounds.len() > 2 => return Err("cannot 3-index slice a string".to_owned()),
        Kind::Str => value.as_str().len(),
        Kind::Slice => value.elements().len(),
        _ => return Err(format!("can't slice item of type {}", value.type_name())),
    };
    if bounds.len() > 3 {
        return Err(format!("too many slice indexes: {}", bounds.len()));
    }
    let mut range = [0, length];
    for (i, bound) in bounds.iter().take(2).enumerate() {
        range[i] = position(bound, length)?;
    }
    let [from, to] = range;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    Ok(match &value {
        Value::Str(text) => self::text(String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned()),
        Value::Typed(_, Some(Json::String(text))) => {
            self::text(String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned())
        }
        // Only a complete list can be borrowed as a list. A part of it becomes text, which prints the same.
        value if from == 0 && to == length => value.clone(),
        value => {
            let ty = value.element_type();
            let parts: Vec<_> =
                value.elements()[from..to].iter().map(|json| Value::typed(ty, Some(json))).collect();
            self::text(format!(
                "[{}]",
                parts.iter().map(|v| print(std::slice::from_ref(v))).collect::<Vec<_>>().join(" ")
            ))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::BUILTINS;

    #[test]
    fn built_in_functions_are_sorted_for_their_search() {
        assert!(BUILTINS.is_sorted_by_key(|f| f.name));
    }
}
