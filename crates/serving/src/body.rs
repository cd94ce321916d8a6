//! Request bodies: JSON of limited size. Errors have the API's own form and name the field.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use serde::{
    de::{DeserializeOwned, Deserializer, Visitor},
    forward_to_deserialize_any,
};

use crate::Refusal;

/// A decoded body. The Content-Type is ignored, because curl users forget it.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| {
            match rejection.status().as_u16() {
                413 => Refusal::too_large(rejection.body_text()),
                _ => Refusal::bad_request(rejection.body_text()),
            }
        })?;
        decode(&body).map(Self)
    }
}

/// Decodes a body.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // The library writes `.` for the path if the body as a whole is wrong, and `?` where it does not know it.
        match path.as_str() {
            _ if error.inner().is_eof() => malformed(body, error.inner()),
            path if path.contains('?') || path == "." && !error.inner().is_data() => {
                malformed(body, error.inner())
            }
            "." => Refusal::invalid("", format!("request body: {}", error.inner())),
            _ => Refusal::invalid(&path, format!("{path}: {}", error.inner())),
        }
    })?;
    reader.end().map_err(|error| malformed(body, &error))?;
    Ok(value)
}

/// A body that is not JSON. As in vLLM, the parameter is the character at which this shows.
fn malformed(body: &[u8], error: &serde_json::Error) -> Refusal {
    let before =
        body.split(|byte| *byte == b'\n').take(error.line() - 1).map(|line| line.len() + 1).sum::<usize>();
    let offset = if error.is_eof() { body.len() } else { before + error.column().saturating_sub(1) };
    let characters = String::from_utf8_lossy(&body[..offset.min(body.len())]).chars().count();
    let param = if body.is_empty() { String::new() } else { characters.to_string() };
    Refusal::invalid(&param, format!("request body: {error}"))
}

/// Reads a struct from an object only. What serde derives also takes a list, as the fields in their order.
pub(crate) struct ObjectOnly<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ObjectOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Lets these structs, which derive `Deserialize` with `remote = "Self"`, be read from objects only.
macro_rules! object_only {
    ($($name:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // This is the function that serde has derived for the struct itself.
                <$name>::deserialize($crate::body::ObjectOnly(deserializer))
            }
        }
    )+};
}
pub(crate) use object_only;
