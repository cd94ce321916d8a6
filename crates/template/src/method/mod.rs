//! Methods of Go types that templates can call.
//!
//! Go looks up a method before a field, and also calls methods on nil pointers. Some methods then return a value. Others
//! panic, which a template reports as an error.

pub(crate) mod go;
mod lookup;
mod scalar;

use serde_json::Value as Json;

use crate::reflect::{Ty, Value};

/// The type of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Param {
    /// `interface{}`: anything, nil included.
    Any,
    /// Any value, with its type.
    Value,
    /// `string`.
    String,
    /// `int`.
    Int,
    /// A pointer to this type.
    Pointer(fn() -> &'static Ty),
}

/// A method of a Go type.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// The types of its parameters.
    pub params: &'static [Param],
    /// The implementation.
    pub call: Call,
}

/// The implementation of a method.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    /// Returns a value, or fails with a message.
    Gives(Implementation),
    /// Returns nothing, so templates cannot call it.
    Nothing,
    /// Returns a second value of this type, so templates cannot call it.
    And(&'static str),
}

/// A function that returns a value, or fails with a message.
pub type Implementation = for<'a> fn(Receiver<'a>, &[Value<'a>]) -> Result<Answer<'a>, String>;

/// The receiver of a method call.
#[derive(Debug, Clone, Copy)]
pub enum Receiver<'a> {
    /// A nil pointer.
    Nil,
    /// A value of this type; without JSON the zero value.
    At(Ty, Option<&'a Json>),
}

/// The result of a method.
#[derive(Debug)]
pub enum Answer<'a> {
    /// An existing value.
    Value(Value<'a>),
    /// A new value of this type.
    Made(Ty, Json),
}

/// Go's error for a method that dereferences its nil receiver.
const NIL: &str = "runtime error: invalid memory address or nil pointer dereference";

// === impl Param ===

impl Param {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Value => "reflect.Value",
            Self::String => "string",
            Self::Int => "int",
            Self::Pointer(_) => "pointer",
        }
    }
}

// === impl Receiver ===

impl<'a> Receiver<'a> {
    /// The JSON of the receiver; `None` for the zero value.
    ///
    /// # Errors
    /// Go's message if the receiver is nil.
    pub fn json(self) -> Result<Option<&'a Json>, String> {
        match self {
            Self::Nil => Err(NIL.to_owned()),
            Self::At(_, json) => Ok(json),
        }
    }

    /// A field of the receiver by its JSON key. Returns `None` if the receiver is nil.
    pub fn get(self, key: &str) -> Option<&'a Json> {
        match self {
            Self::Nil => None,
            Self::At(_, json) => json?.get(key).filter(|value| !value.is_null()),
        }
    }

    /// A field of the receiver by its Go name.
    ///
    /// # Errors
    /// Go's message if the receiver is nil.
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

    /// A string.
    pub fn text(value: impl Into<String>) -> Result<Self, String> {
        Ok(Self::Value(Value::Str(value.into().into())))
    }
}

// === impl Method ===

impl Method {
    /// A method without parameters that returns a value.
    pub const fn get(name: &'static str, call: Implementation) -> Self {
        Self::new(name, &[], call)
    }

    /// A method that returns a value.
    pub const fn new(name: &'static str, params: &'static [Param], call: Implementation) -> Self {
        Self { name, params, call: Call::Gives(call) }
    }

    /// `DeepCopy`, which every type of the Kubernetes API has. In a template, it returns the value itself.
    pub const COPY: Self = Self::get("DeepCopy", |receiver, _| {
        Ok(Answer::Value(match receiver {
            Receiver::At(Ty::Struct(of), json) => Value::Typed(Ty::Struct(of), json),
            Receiver::At(ty, json) => Value::typed(ty, json),
            Receiver::Nil => Value::Invalid,
        }))
    });
}
