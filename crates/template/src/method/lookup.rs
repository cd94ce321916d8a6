//! Finds the method that a template names.

use serde_json::Value as Json;

use super::{Method, Receiver, scalar};
use crate::reflect::{Struct, Ty, Value};

impl Method {
    /// Finds the method `name` of a value, of the value that it points to, or of an embedded struct. Returns the method and
    /// its receiver.
    pub(crate) fn of<'a>(value: &Value<'a>, name: &str) -> Option<(&'static Self, Receiver<'a>)> {
        let Value::Typed(ty, json) = value else { return None };
        let (ty, json, nil) = match ty {
            Ty::Ptr(inner) => (**inner, *json, json.is_none()),
            ty => (*ty, *json, false),
        };
        match ty {
            Ty::Struct(of) => Self::of_struct(of, json, nil, name),
            ty => {
                let method = scalar::methods(ty).iter().find(|method| method.name == name)?;
                Some((method, if nil { Receiver::Nil } else { Receiver::At(ty, json) }))
            }
        }
    }

    fn of_struct<'a>(
        of: &'static Struct,
        json: Option<&'a Json>,
        nil: bool,
        name: &str,
    ) -> Option<(&'static Self, Receiver<'a>)> {
        if let Some(method) = of.methods.iter().find(|method| method.name == name) {
            let receiver = if nil { Receiver::Nil } else { Receiver::At(Ty::Struct(of), json) };
            return Some((method, receiver));
        }
        // A field of that name hides methods of embedded structs.
        if of.fields().iter().any(|field| field.go == name) {
            return None;
        }
        of.fields().iter().filter(|field| field.embedded).find_map(|field| {
            let below = if field.json.is_empty() { json } else { json.and_then(|json| json.get(field.json)) };
            match field.ty {
                Ty::Struct(inner) => Self::of_struct(inner, below, nil, name),
                Ty::Ptr(Ty::Struct(inner)) => Self::of_struct(inner, below, nil || below.is_none(), name),
                _ => None,
            }
        })
    }
}
