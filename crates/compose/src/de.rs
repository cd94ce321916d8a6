//! Typed values straight from borrowed trees, rendering templates on the way.

use std::{cell::Cell, fmt};

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde_json::Value;

use crate::{leaf::ACTION, merge::Tree};

/// Turns a string with an action into what it renders to.
pub(crate) trait Render {
    /// The rendered text; `None` if the string cannot be rendered on its own.
    fn render(&self, text: &str) -> Option<String>;
}

/// Why a tree did not become a typed value.
#[derive(Debug, PartialEq)]
pub(crate) enum Error {
    /// A string needs the whole document to be rendered, or fails to render.
    Unrendered,
    /// A value does not fit its type.
    Type(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrendered => f.write_str("a template cannot be rendered on its own"),
            Self::Type(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Type(message.to_string())
    }
}

/// A place in a tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'t, 'a, R> {
    /// The tree.
    pub(crate) tree: &'t Tree<'a>,
    /// Renders its strings.
    pub(crate) render: &'t R,
}

impl<'de, R: Render> Deserializer<'de> for Node<'_, 'de, R> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Leaf(json) => Json { json, render: self.render }.deserialize_any(visitor),
            Tree::Object(entries) => {
                visitor.visit_map(Entries { rest: entries.iter(), value: None, render: self.render })
            }
            Tree::List(items) => visitor.visit_seq(Items { items: items.iter(), render: self.render }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Leaf(Value::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Leaf(json) => visitor.visit_enum(Variant { json }),
            _ => Err(de::Error::custom("expected a string")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct Entries<'t, 'a, R> {
    rest: std::slice::Iter<'t, (&'a str, Tree<'a>)>,
    value: Option<&'t Tree<'a>>,
    render: &'t R,
}

impl<'de, R: Render> MapAccess<'de> for Entries<'_, 'de, R> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, tree)) = self.rest.next() else { return Ok(None) };
        self.value = Some(tree);
        seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let tree = self.value.take().ok_or_else(|| de::Error::custom("value without a key"))?;
        seed.deserialize(Node { tree, render: self.render })
    }
}

struct Items<'t, 'a, R> {
    items: std::slice::Iter<'t, Tree<'a>>,
    render: &'t R,
}

impl<'de, R: Render> SeqAccess<'de> for Items<'_, 'de, R> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.items.next().map(|tree| seed.deserialize(Node { tree, render: self.render })).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// A borrowed JSON value.
struct Json<'t, 'a, R> {
    json: &'a Value,
    render: &'t R,
}

impl<'de, R: Render> Deserializer<'de> for Json<'_, 'de, R> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.json {
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), ..) => visitor.visit_i64(n),
                (_, Some(n), _) => visitor.visit_u64(n),
                (.., n) => visitor.visit_f64(n.unwrap_or_default()),
            },
            Value::String(text) if text.contains(ACTION) => match self.render.render(text) {
                Some(text) => visitor.visit_string(text),
                None => Err(Error::Unrendered),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(JsonItems { items: items.iter(), render: self.render }),
            Value::Object(map) => visitor.visit_map(JsonEntries {
                entries: map.iter(),
                value: Cell::new(None),
                render: self.render,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.json.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(Variant { json: self.json })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct JsonEntries<'t, 'a, R> {
    entries: serde_json::map::Iter<'a>,
    value: Cell<Option<&'a Value>>,
    render: &'t R,
}

impl<'de, R: Render> MapAccess<'de> for JsonEntries<'_, 'de, R> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, json)) = self.entries.next() else { return Ok(None) };
        self.value.set(Some(json));
        seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let json = self.value.take().ok_or_else(|| de::Error::custom("value without a key"))?;
        seed.deserialize(Json { json, render: self.render })
    }
}

struct JsonItems<'t, 'a, R> {
    items: std::slice::Iter<'a, Value>,
    render: &'t R,
}

impl<'de, R: Render> SeqAccess<'de> for JsonItems<'_, 'de, R> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.items.next().map(|json| seed.deserialize(Json { json, render: self.render })).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// An enum variant without content.
struct Variant<'a> {
    json: &'a Value,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name = self.json.as_str().ok_or_else(|| <Error as de::Error>::custom("expected a string"))?;
        let name: de::value::StrDeserializer<'_, Error> = name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Error> {
        Err(de::Error::custom("expected a plain name"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("expected a plain name"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("expected a plain name"))
    }
}
