//! Methods of types whose JSON is a scalar.

use longboat_quantity::Quantity;
use serde_json::{Value as Json, json};

use super::{Answer, Call, Method, Receiver};
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

const fn gives(
    name: &'static str,
    call: for<'a> fn(Receiver<'a>, &[Value<'a>]) -> Result<Answer<'a>, String>,
) -> Method {
    Method { name, params: &[], call: Call::Gives(call) }
}

const QUANTITY: &[Method] = &[
    gives("String", |receiver, _| match receiver {
        Receiver::Nil => Answer::text("<nil>"),
        receiver @ Receiver::At(..) => printed(receiver),
    }),
    gives("IsZero", |receiver, _| Answer::bool(thousandths(receiver)? == 0)),
    gives("Sign", |receiver, _| {
        let sign = i64::try_from(thousandths(receiver)?.signum()).unwrap_or_default();
        Ok(Answer::Value(Value::Int(sign)))
    }),
    gives("Value", |receiver, _| Ok(whole(up(thousandths(receiver)?, 1000)))),
    gives("MilliValue", |receiver, _| Ok(whole(thousandths(receiver)?))),
    gives("DeepCopy", itself),
    Method { name: "AsInt64", params: &[], call: Call::And("bool") },
    Method { name: "AsDec", params: &[], call: Call::Gives(unavailable) },
];

const INT_OR_STRING: &[Method] = &[
    gives("String", |receiver, _| match receiver {
        Receiver::Nil => Answer::text("<nil>"),
        receiver @ Receiver::At(..) => printed(receiver),
    }),
    gives("IntValue", |receiver, _| {
        let value = match receiver.json()? {
            Some(Json::String(text)) => text.parse::<i64>().unwrap_or_default(),
            Some(number) => number.as_i64().unwrap_or_default(),
            None => 0,
        };
        Ok(Answer::Value(Value::Int(value)))
    }),
];

const URL: &[Method] = &[
    gives("String", |receiver, _| match receiver {
        Receiver::Nil => Answer::text(""),
        receiver @ Receiver::At(..) => printed(receiver),
    }),
    gives("IsEmpty", |receiver, _| {
        let text = match receiver {
            Receiver::Nil => "",
            Receiver::At(_, json) => json.and_then(Json::as_str).unwrap_or_default(),
        };
        Answer::bool(text.is_empty())
    }),
];

const RESOURCE_LIST: &[Method] = &[
    gives("Cpu", |receiver, _| amount(receiver, "cpu")),
    gives("Memory", |receiver, _| amount(receiver, "memory")),
    gives("Storage", |receiver, _| amount(receiver, "storage")),
    gives("Pods", |receiver, _| amount(receiver, "pods")),
    gives("StorageEphemeral", |receiver, _| amount(receiver, "ephemeral-storage")),
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

fn itself<'a>(receiver: Receiver<'a>, _: &[Value<'a>]) -> Result<Answer<'a>, String> {
    receiver.json()?;
    match receiver {
        Receiver::At(ty, json) => Ok(Answer::Value(Value::typed(ty, json))),
        Receiver::Nil => Ok(Answer::Value(Value::Invalid)),
    }
}

fn unavailable<'a>(_: Receiver<'a>, _: &[Value<'a>]) -> Result<Answer<'a>, String> {
    Err("its result is of no use in a template".to_owned())
}

/// Creates an `int64`.
fn whole<'a>(value: i128) -> Answer<'a> {
    let value = i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
    Answer::Made(Ty::Int("int64"), json!(value))
}

/// Divides and rounds away from zero.
fn up(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

/// A quantity in thousandths, rounded away from zero. Returns 0 if the value is not a quantity.
fn thousandths(receiver: Receiver<'_>) -> Result<i128, String> {
    let text = match receiver.json()? {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Number(number)) => number.to_string(),
        _ => return Ok(0),
    };
    Ok(Quantity::parse(text.trim()).map_or(0, Quantity::milli))
}
