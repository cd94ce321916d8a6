//! Fields that requests for a model get on the way to the engines. SGLang learns from such a field which LoRA adapter a request
//! is for: by the name of the model alone, it would answer with the base model.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{error::Error, object::Object};

/// The fields, by the names of models.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelFields(BTreeMap<String, BTreeMap<String, Box<RawValue>>>);

// === impl ModelFields ===

impl ModelFields {
    /// Reads the flag. Empty means no fields.
    pub(crate) fn of(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text).map(Self).map_err(|error| {
            Error::flag(
                "model-fields",
                format!("expected a JSON object of models with objects of fields: {error}"),
            )
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the request with the fields of its model, where the client has not set them. What is no request for one of the
    /// models stays as it is.
    pub(crate) fn add(&self, body: Bytes) -> Bytes {
        match self.changed(&body) {
            Some(request) => request.into(),
            None => body,
        }
    }

    fn changed(&self, body: &Bytes) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let mut request = Object::of(body).ok()?;
        let model: String = serde_json::from_str(request.get("model")?.get()).ok()?;
        for (name, value) in self.0.get(&model)? {
            if request.get(name).is_none_or(|set| set.get() == "null") {
                request.set(name, Cow::Borrowed(value));
            }
        }
        Some(request.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_a_model_get_its_fields_and_others_stay() {
        let fields =
            ModelFields::of(r#"{"sql":{"lora_path":"sql"},"publishers/ns/models/sql":{"lora_path":"sql"}}"#)
                .unwrap();
        let added = |text: &str| {
            String::from_utf8(fields.add(Bytes::copy_from_slice(text.as_bytes())).to_vec()).unwrap()
        };
        for (request, expected) in [
            (r#"{"model":"sql","n":1}"#, r#"{"model":"sql","n":1,"lora_path":"sql"}"#),
            (
                r#"{"model":"publishers/ns/models/sql"}"#,
                r#"{"model":"publishers/ns/models/sql","lora_path":"sql"}"#,
            ),
            (r#"{"model":"s\u0071l","lora_path":null}"#, r#"{"model":"s\u0071l","lora_path":"sql"}"#),
            (r#"{"model":"sql","lora_path":"other"}"#, r#"{"model":"sql","lora_path":"other"}"#),
        ] {
            assert_eq!(added(request), expected);
        }
        for other in [r#"{ "model": "base" }"#, r#"{"model":1}"#, "{}", "[]", "no JSON"] {
            assert_eq!(added(other), other);
        }
        assert!(ModelFields::of("").unwrap().is_empty());
        assert!(ModelFields::of("[]").unwrap_err().to_string().starts_with("--model-fields: expected"));
    }
}
