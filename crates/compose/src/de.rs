//! Deserializes typed values directly from borrowed trees, and renders templates on the way.
//!
//! There is one deserializer type for all sources and renderers. A pod spec has so many types that compiling a deserializer
//! for each combination would take minutes.

use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde_json::Value;

use crate::{
    leaf,
    merge::{Tree, View},
};

/// Renders strings that contain a template action.
pub(crate) trait Render {
    /// Returns the rendered text, or `None` if the string cannot be rendered on its own.
    fn render(&self, text: &str) -> Option<String>;
}

/// Returns strings unchanged.
pub(crate) struct Verbatim;

impl Render for Verbatim {
    fn render(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

/// Why a tree could not be deserialized.
#[derive(Debug, PartialEq)]
pub(crate) enum Error {
    /// A string cannot be rendered without the whole document, or fails to render.
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

/// A place in a tree, with the renderer for its strings.
#[derive(Clone, Copy)]
pub(crate) struct Node<'t, 'a> {
    place: View<'t, 'a>,
    render: &'t dyn Render,
}

impl<'t, 'a> Node<'t, 'a> {
    pub(crate) fn new(place: View<'t, 'a>, render: &'t dyn Render) -> Self {
        let place = match place {
            View::Tree(Tree::Leaf(json)) => View::Json(json),
            other => other,
        };
        Self { place, render }
    }

    fn child(self, place: View<'t, 'a>) -> Self {
        Self::new(place, self.render)
    }
}

impl<'de> Deserializer<'de> for Node<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.place {
            View::Json(Value::Null) => visitor.visit_unit(),
            View::Json(Value::Bool(b)) => visitor.visit_bool(*b),
            View::Json(Value::Number(n)) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), ..) => visitor.visit_i64(n),
                (_, Some(n), _) => visitor.visit_u64(n),
                (.., n) => visitor.visit_f64(n.unwrap_or_default()),
            },
            View::Json(Value::String(text)) if leaf::is_template(text) => match self.render.render(text) {
                Some(text) => visitor.visit_string(text),
                None => Err(Error::Unrendered),
            },
            View::Json(Value::String(text)) => visitor.visit_borrowed_str(text),
            View::Json(Value::Array(items)) => {
                visitor.visit_seq(Items { rest: Rest::Json(items.iter()), node: self })
            }
            View::Json(Value::Object(map)) => {
                visitor.visit_map(Members { rest: Rest::Json(map.iter()), value: None, node: self })
            }
            View::Tree(Tree::Object(entries)) => {
                visitor.visit_map(Members { rest: Rest::Tree(entries.iter()), value: None, node: self })
            }
            View::Tree(Tree::List(items)) => {
                visitor.visit_seq(Items { rest: Rest::Tree(items.iter()), node: self })
            }
            View::Tree(Tree::Leaf(json)) => self.child(View::Json(json)).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.place {
            View::Json(Value::Null) => visitor.visit_none(),
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
        match self.place {
            View::Json(Value::String(name)) => visitor.visit_enum(Variant { name }),
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

/// The remaining elements of a list or an object.
enum Rest<T, J> {
    Tree(T),
    Json(J),
}

struct Members<'t, 'a> {
    rest: Rest<std::slice::Iter<'t, (&'a str, Tree<'a>)>, serde_json::map::Iter<'a>>,
    value: Option<View<'t, 'a>>,
    node: Node<'t, 'a>,
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let next: Option<(&'de str, View<'_, 'de>)> = match &mut self.rest {
            Rest::Tree(entries) => entries.next().map(|(key, tree)| (*key, View::Tree(tree))),
            Rest::Json(entries) => entries.next().map(|(key, json)| (key.as_str(), View::Json(json))),
        };
        let Some((key, place)) = next else { return Ok(None) };
        self.value = Some(place);
        seed.deserialize(de::value::BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let place = self.value.take().ok_or_else(|| <Error as de::Error>::custom("value without a key"))?;
        seed.deserialize(self.node.child(place))
    }
}

struct Items<'t, 'a> {
    rest: Rest<std::slice::Iter<'t, Tree<'a>>, std::slice::Iter<'a, Value>>,
    node: Node<'t, 'a>,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let next = match &mut self.rest {
            Rest::Tree(items) => items.next().map(View::Tree),
            Rest::Json(items) => items.next().map(View::Json),
        };
        next.map(|place| seed.deserialize(self.node.child(place))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(match &self.rest {
            Rest::Tree(items) => items.len(),
            Rest::Json(items) => items.len(),
        })
    }
}

/// An enum variant without data.
struct Variant<'a> {
    name: &'a str,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name: de::value::StrDeserializer<'_, Error> = self.name.into_deserializer();
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
