//! Methods of Go types, as templates call them.
//!
//! Go looks for a method before it looks for a field, and calls it on nil pointers too: some answer then, others panic, which
//! a template reports as an error.

pub(crate) mod go;
mod scalar;

use serde_json::Value as Json;

use crate::{
    functions::Param,
    reflect::{Struct, Ty, Value},
};

/// A method of a Go type.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub params: &'static [Param],
    /// What it does.
    pub call: Call,
}

/// What a method does.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    /// It gives a value, or fails with a message.
    Gives(for<'a> fn(Receiver<'a>, &[Value<'a>]) -> Result<Answer<'a>, String>),
    /// It gives nothing, so that no template can call it.
    Nothing,
    /// It gives a second value of this type, so that no template can call it.
    And(&'static str),
}

/// What a method is called on.
#[derive(Debug, Clone, Copy)]
pub enum Receiver<'a> {
    /// A nil pointer.
    Nil,
    /// The value of this type; without JSON the zero value.
    At(Ty, Option<&'a Json>),
}

/// What a method gives.
#[derive(Debug)]
pub enum Answer<'a> {
    /// Something that is there.
    Value(Value<'a>),
    /// Something new of this type.
    Made(Ty, Json),
}

/// What Go says of a method that looks into its nil receiver.
const NIL: &str = "runtime error: invalid memory address or nil pointer dereference";

// === impl Receiver ===

impl<'a> Receiver<'a> {
    /// The JSON of the value; none for its zero value.
    ///
    /// # Errors
    /// What Go says where the receiver is nil.
    pub fn json(self) -> Result<Option<&'a Json>, String> {
        match self {
            Self::Nil => Err(NIL.to_owned()),
            Self::At(_, json) => Ok(json),
        }
    }

    /// A field of the value by its JSON key; none on a nil receiver.
    pub fn get(self, key: &str) -> Option<&'a Json> {
        match self {
            Self::Nil => None,
            Self::At(_, json) => json?.get(key).filter(|value| !value.is_null()),
        }
    }

    /// A field of the value by its Go name.
    ///
    /// # Errors
    /// What Go says where the receiver is nil.
    pub fn field(self, name: &str) -> Result<Answer<'a>, String> {
        let Self::At(Ty::Struct(of), json) = self else { return Err(NIL.to_owned()) };
        match Value::field(of, json, name) {
            Some(Ok(value)) => Ok(Answer::Value(value)),
            Some(Err(_)) | None => Err(NIL.to_owned()),
        }
    }
}

// === impl Answer ===

impl Answer<'_> {
    /// A boolean.
    pub fn bool(value: bool) -> Result<Self, String> {
        Ok(Self::Value(Value::Bool(value)))
    }

    /// A text.
    pub fn text(value: impl Into<String>) -> Result<Self, String> {
        Ok(Self::Value(Value::Str(value.into().into())))
    }
}

// === impl Method ===

impl Method {
    /// `DeepCopy`, which every type of the Kubernetes API has: in a template, the value itself.
    pub const COPY: Self = Self {
        name: "DeepCopy",
        params: &[],
        call: Call::Gives(|receiver, _| {
            Ok(Answer::Value(match receiver {
                Receiver::At(Ty::Struct(of), json) => Value::Typed(Ty::Struct(of), json),
                Receiver::At(ty, json) => Value::typed(ty, json),
                Receiver::Nil => Value::Invalid,
            }))
        }),
    };

    /// Finds the method `name` of a value, of its pointee, or of a struct that is embedded in it, and the receiver.
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
        // A field of that name hides what is embedded.
        if of.fields.iter().any(|field| field.go == name) {
            return None;
        }
        of.fields.iter().filter(|field| field.embedded).find_map(|field| {
            let below = if field.json.is_empty() { json } else { json.and_then(|json| json.get(field.json)) };
            match field.ty {
                Ty::Struct(inner) => Self::of_struct(inner, below, nil, name),
                Ty::Ptr(Ty::Struct(inner)) => Self::of_struct(inner, below, nil || below.is_none(), name),
                _ => None,
            }
        })
    }
}
