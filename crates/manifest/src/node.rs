//! A parsed document: its value, and the position of each part of the value.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use crate::Position;

/// The position of a value and of its parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) parts: Parts,
}

/// The parts of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parts {
    /// It is a scalar.
    None,
    /// Fields by name, in the order of the text.
    Fields(Vec<(Box<str>, Position, Node)>),
    /// Items of a list.
    Items(Vec<Node>),
}

/// A value with its positions, as returned by the parser.
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) node: Node,
}

/// The content of a [`Spanned`]: a value whose own position is not known yet.
struct Content {
    value: Value,
    parts: Parts,
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `referenced` is the place of an alias; `defined` would be that of its anchor, perhaps in another field.
        let read = Spanned::<Content>::deserialize(deserializer)?;
        let node = Node { at: Position::of_parser(read.referenced), parts: read.value.parts };
        Ok(Self { value: read.value.value, node })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

/// Up to this limit, floats represent all integers exactly.
const WHOLE: f64 = 9_007_199_254_740_992.0;

impl From<Value> for Content {
    fn from(value: Value) -> Self {
        Self { value, parts: Parts::None }
    }
}

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON can express")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Value::Bool(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Value::from(value).into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Content, E> {
        // kubectl converts YAML to JSON, in which `2.0` loses its fraction and becomes an integer.
        if value.fract() == 0.0 && value.abs() <= WHOLE {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it has no fraction and is within the range"
            )]
            return Ok(Value::from(value as i64).into());
        }
        let number = Number::from_f64(value);
        number.map(|number| Value::Number(number).into()).ok_or_else(|| {
            E::custom(format!("{value} is not allowed in a Kubernetes object: quote it if you mean text"))
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Value::from(value).into())
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Value::String(value).into())
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Value::Null.into())
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Value::Null.into())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let (mut values, mut nodes) = (Vec::new(), Vec::new());
        while let Some(Read { value, node }) = items.next_element()? {
            values.push(value);
            nodes.push(node);
        }
        Ok(Content { value: Value::Array(values), parts: Parts::Items(nodes) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Content, A::Error> {
        let (mut values, mut nodes) = (Map::new(), Vec::new());
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            let Read { value, node } = fields.next_value()?;
            // No key comes twice: the parser refuses it (`limits::options`).
            nodes.push((key.value.as_str().into(), Position::of_parser(key.referenced), node));
            values.insert(key.value, value);
        }
        Ok(Content { value: Value::Object(values), parts: Parts::Fields(nodes) })
    }
}
