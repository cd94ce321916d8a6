//! Reads values of a configuration into types. Errors name the path, the value that was found, and the expected value.

use std::fmt;

use serde::{
    de::{
        self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, Unexpected,
        VariantAccess, Visitor,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;

use crate::config::nearest::hint;

/// Reads a value.
pub(crate) fn read<T: de::DeserializeOwned>(value: &Value) -> Result<T, ParameterError> {
    T::deserialize(ValueAt { value, path: String::new() })
}

/// Reads the value of this field of a document.
pub(crate) fn read_at<T: de::DeserializeOwned>(field: &str, value: &Value) -> Result<T, ParameterError> {
    T::deserialize(ValueAt { value, path: field.to_owned() })
}

/// Why a value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParameterError {
    /// The path of the value. `None` until it is known.
    path: Option<String>,
    /// The field of the value that does not exist.
    unknown: Option<String>,
    message: String,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_deref() {
            None | Some("") => f.write_str(&self.message),
            Some(path) => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for ParameterError {}

impl ParameterError {
    fn new(message: String) -> Self {
        Self { path: None, unknown: None, message }
    }

    /// The path of what is wrong: of the value, or of its field that does not exist.
    pub(crate) fn place(&self) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        match &self.unknown {
            Some(field) if path.is_empty() => field.clone(),
            Some(field) => format!("{path}.{field}"),
            None => path.to_owned(),
        }
    }

    /// Sets the path, unless it is set already: the innermost path is reported.
    fn at(mut self, path: String) -> Self {
        self.path.get_or_insert(path);
        self
    }
}

impl de::Error for ParameterError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {}", ExpectedValue(expected), UnexpectedValue(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {length} entries", ExpectedValue(expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let hint = hint(expected.iter().copied(), variant);
        Self::new(format!("expected one of {}, found \"{variant}\"{hint}", expected.join(", ")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = if expected.is_empty() {
            format!("there is no field \"{field}\" here, nor any other")
        } else {
            let hint = hint(expected.iter().copied(), field);
            format!("there is no field \"{field}\" here, only {}{hint}", expected.join(", "))
        };
        Self { unknown: Some(field.to_owned()), ..Self::new(message) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("field \"{field}\" is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("field \"{field}\" is there twice"))
    }
}

/// The expected value, without the names of Rust types.
struct ExpectedValue<'a>(&'a dyn Expected);

impl fmt::Display for ExpectedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(match text.as_str() {
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
            "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
            "f32" | "f64" => "a number",
            "a boolean" => "true or false",
            "a sequence" => "a list",
            "a map" => "an object",
            text if text.starts_with("struct ") => "an object",
            text => text,
        })
    }
}

/// The value that was found.
struct UnexpectedValue<'a>(Unexpected<'a>);

impl fmt::Display for UnexpectedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Bool(value) => write!(f, "{value}"),
            Unexpected::Unsigned(value) => write!(f, "{value}"),
            Unexpected::Signed(value) => write!(f, "{value}"),
            Unexpected::Float(value) => write!(f, "{value}"),
            Unexpected::Str(value) => write!(f, "\"{value}\""),
            Unexpected::Unit | Unexpected::Option => f.write_str("null"),
            Unexpected::Seq => f.write_str("a list"),
            Unexpected::Map => f.write_str("an object"),
            other => write!(f, "{other}"),
        }
    }
}

/// A value with its path.
struct ValueAt<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> ValueAt<'a> {
    /// A field of the object at this path.
    fn field(above: &str, name: &str, value: &'a Value) -> Self {
        Self { value, path: if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") } }
    }
}

impl IntoDeserializer<'_, ParameterError> for ValueAt<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de, 's> Deserializer<'de> for ValueAt<'s> {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        let Self { value, path } = self;
        let read = match value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::String(value) => visitor.visit_str(value),
            Value::Number(value) => match (value.as_u64(), value.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (None, Some(value)) => visitor.visit_i64(value),
                (None, None) => visitor.visit_f64(value.as_f64().unwrap_or(f64::NAN)),
            },
            Value::Array(entries) => {
                let entry = |(index, value)| ValueAt { value, path: format!("{path}[{index}]") };
                visitor.visit_seq(SeqDeserializer::new(entries.iter().enumerate().map(entry)))
            }
            Value::Object(fields) => {
                let field =
                    |(name, value): (&'s String, _)| (name.as_str(), ValueAt::field(&path, name, value));
                visitor.visit_map(MapDeserializer::new(fields.iter().map(field)))
            }
        };
        read.map_err(|error: ParameterError| error.at(path))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// Fields are read by name only. A list of values is refused. As in Go, `null` leaves a field as it is.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        let Self { value, path } = self;
        let read = match value {
            Value::Array(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            Value::Object(fields) => {
                let set =
                    fields.iter().filter(|(name, value)| !value.is_null() || !known.contains(&name.as_str()));
                let field = |(name, value): (&'s String, _)| (name.as_str(), Self::field(&path, name, value));
                visitor.visit_map(MapDeserializer::new(set.map(field)))
            }
            _ => return Self { value, path }.deserialize_any(visitor),
        };
        read.map_err(|error: ParameterError| error.at(path))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        let Self { value, path } = self;
        let read = match value {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Object(fields) => match fields.iter().next() {
                Some((name, value)) if fields.len() == 1 => {
                    visitor.visit_enum(Variant { name, value: ValueAt::field(&path, name, value) })
                }
                _ => Err(de::Error::invalid_type(Unexpected::Map, &"a name, or an object of one field")),
            },
            Value::Null => Err(de::Error::invalid_type(Unexpected::Unit, &"a name")),
            Value::Bool(value) => Err(de::Error::invalid_type(Unexpected::Bool(*value), &"a name")),
            Value::Number(value) => Err(de::Error::custom(format!("expected a name, found {value}"))),
            Value::Array(_) => Err(de::Error::invalid_type(Unexpected::Seq, &"a name")),
        };
        read.map_err(|error: ParameterError| error.at(path))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// An enum variant with a value.
struct Variant<'a> {
    name: &'a str,
    value: ValueAt<'a>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = ParameterError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), ParameterError> {
        Ok((seed.deserialize(StrDeserializer::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = ParameterError;

    fn unit_variant(self) -> Result<(), ParameterError> {
        Err(de::Error::custom(format!("\"{}\" takes no value", self.name)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ParameterError> {
        seed.deserialize(self.value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ParameterError> {
        self.value.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParameterError> {
        self.value.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
    struct Settings {
        block_size: u32,
        weights: Vec<f64>,
        tiers: Vec<Tier>,
        mode: Option<Mode>,
        text: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Tier {
        name: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Fast,
        Exact,
    }

    #[test]
    fn what_serde_json_reads_is_read_alike() {
        let value = json!({
            "blockSize": 16, "weights": [1, 2.5, -3], "tiers": [{"name": "gpu"}], "mode": "exact", "text": "x",
        });
        assert_eq!(read::<Settings>(&value).unwrap(), serde_json::from_value(value).unwrap());
        let unset = json!({"blockSize": null, "weights": null, "mode": null, "text": null});
        assert_eq!(read::<Settings>(&unset).unwrap(), Settings::default());
        assert!(read::<Settings>(&json!({"other": null})).is_err());
    }

    #[test]
    fn errors_say_where_what_was_found_and_what_was_meant() {
        for (value, message) in [
            (
                json!({"blocksize": 1}),
                "there is no field \"blocksize\" here, only blockSize, weights, tiers, mode, text; did you mean \"blockSize\"?",
            ),
            (
                json!({"blockSize": "16"}),
                "blockSize: expected a whole number that is not negative, found \"16\"",
            ),
            (json!({"blockSize": -1}), "blockSize: expected a whole number that is not negative, found -1"),
            (json!({"weights": [1, null]}), "weights[1]: expected a number, found null"),
            (json!({"weights": 1}), "weights: expected a list, found 1"),
            (json!({"tiers": [{"name": "a"}, {}]}), "tiers[1]: field \"name\" is missing"),
            (
                json!({"tiers": [{"nam": "a"}]}),
                "tiers[0]: there is no field \"nam\" here, only name; did you mean \"name\"?",
            ),
            (
                json!({"mode": "exakt"}),
                "mode: expected one of fast, exact, found \"exakt\"; did you mean \"exact\"?",
            ),
            (json!({"mode": 3}), "mode: expected a name, found 3"),
            (json!([]), "expected an object, found a list"),
        ] {
            assert_eq!(read::<Settings>(&value).unwrap_err().to_string(), message);
        }
    }
}
