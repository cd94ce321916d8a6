//! Methods of types whose JSON is a scalar.

use longboat_quantity::Quantity;
use serde_json::{Value as Json, json};

use super::{Answer, Call, Method, NIL, Receiver};
use crate::{format::print, reflect::Ty, reflect::Value};

/// The methods of a type that is not a struct in the tables.
pub(super) fn methods(ty: Ty) -> &'static [Method] {
    match ty {
        Ty::Quantity => QUANTITY,
        Ty::IntOrString => INT_OR_STRING,
        Ty::Url => URL,
        Ty::Map("v1.ResourceList", _) => RESOURCE_LIST,
        _ => &[],
    }
}

const QUANTITY: &[Method] = &[
    Method::get("String", |receiver, _| printed(receiver)),
    Method::get("IsZero", |receiver, _| Answer::bool(quantity(receiver)?.nano() == 0)),
    Method::get("Sign", |receiver, _| {
        let sign = i64::try_from(quantity(receiver)?.nano().signum()).unwrap_or_default();
        Ok(Answer::Value(Value::Int(sign)))
    }),
    Method::get("Value", |receiver, _| Ok(integer(quantity(receiver)?.whole()))),
    Method::get("MilliValue", |receiver, _| Ok(integer(quantity(receiver)?.milli()))),
    Method::get("DeepCopy", |receiver, _| match receiver {
        Receiver::At(ty, json) => Ok(Answer::Value(Value::typed(ty, json))),
        Receiver::Nil => Err(NIL.to_owned()),
    }),
    Method { name: "AsInt64", params: &[], call: Call::And("bool") },
    Method::get("AsDec", |_, _| Err("its result is of no use in a template".to_owned())),
];

const INT_OR_STRING: &[Method] = &[
    Method::get("String", |receiver, _| printed(receiver)),
    Method::get("IntValue", |receiver, _| {
        let value = match receiver.json()? {
            Some(Json::String(text)) => text.parse::<i64>().unwrap_or_default(),
            Some(number) => number.as_i64().unwrap_or_default(),
            None => 0,
        };
        Ok(Answer::Value(Value::Int(value)))
    }),
];

const URL: &[Method] = &[
    Method::get("String", |receiver, _| match receiver {
        Receiver::Nil => Answer::text(""),
        receiver @ Receiver::At(..) => printed(receiver),
    }),
    Method::get("IsEmpty", |receiver, _| {
        let json = receiver.json().ok().flatten();
        Answer::bool(json.and_then(Json::as_str).is_none_or(str::is_empty))
    }),
];

const RESOURCE_LIST: &[Method] = &[
    Method::get("Cpu", |receiver, _| amount(receiver, "cpu")),
    Method::get("Memory", |receiver, _| amount(receiver, "memory")),
    Method::get("Storage", |receiver, _| amount(receiver, "storage")),
    Method::get("Pods", |receiver, _| amount(receiver, "pods")),
    Method::get("StorageEphemeral", |receiver, _| amount(receiver, "ephemeral-storage")),
];

/// A quantity in a resource list; 0 if the list does not have it.
fn amount<'a>(receiver: Receiver<'a>, name: &str) -> Result<Answer<'a>, String> {
    let found = receiver.json()?.and_then(|list| list.get(name)).filter(|value| !value.is_null());
    Ok(match found {
        Some(quantity) => Answer::Value(Value::Typed(Ty::Ptr(&Ty::Quantity), Some(quantity))),
        None => Answer::Made(Ty::Ptr(&Ty::Quantity), json!("0")),
    })
}

fn printed(receiver: Receiver<'_>) -> Result<Answer<'_>, String> {
    match receiver {
        Receiver::At(ty, json) => Answer::text(print(&[Value::typed(ty, json)])),
        Receiver::Nil => Answer::text("<nil>"),
    }
}

/// Creates an `int64`.
fn integer<'a>(value: i128) -> Answer<'a> {
    let value = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
    Answer::Made(Ty::Int("int64"), json!(value))
}

/// The quantity of the receiver; zero if the value is none.
fn quantity(receiver: Receiver<'_>) -> Result<Quantity, String> {
    let text = match receiver.json()? {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    Ok(Quantity::parse(text.trim()).unwrap_or_default())
}
