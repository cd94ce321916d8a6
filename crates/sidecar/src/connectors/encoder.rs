//! The encoder stage: other pods compute the embeddings of images, videos and audio before the prompt is computed.

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::shared_storage;
use crate::{
    api::{self, Api},
    object::Object,
};

/// The field that tells prefillers and decoders where the embeddings are.
const TRANSFER: &str = "ec_transfer_params";

/// The types of items that are encoded. The value of an item is in the field with the name of its type.
const TYPES: [&str; 4] = ["image_url", "audio_url", "video_url", "input_audio"];

/// How embeddings reach the engine that computes the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoder {
    /// `ec-example`: through a storage that all engines share.
    Example,
    /// `ec-nixl`: the encoder's response contains the location of the embeddings.
    Nixl,
}

/// The locations of embeddings, by the identifiers of their items.
pub(crate) type EmbeddingLocations = Vec<(String, Box<RawValue>)>;

// === impl Encoder ===

impl Encoder {
    /// Reads the locations from an encoder's response. With a shared storage there are none. If the response has no
    /// parameters, the engine that computes the prompt encodes the item itself.
    pub(crate) fn found(self, answer: &[u8]) -> Result<EmbeddingLocations, serde_json::Error> {
        if self == Self::Example {
            return Ok(EmbeddingLocations::new());
        }
        let answer = Object::parse(answer)?;
        let transfer = answer.get(TRANSFER).map(|value| Object::parse(value.get().as_bytes()));
        let Some(Ok(transfer)) = transfer else { return Ok(EmbeddingLocations::new()) };
        Ok(transfer.entries().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// Returns the items of a request that must be encoded, without duplicates.
pub(crate) fn items<'a>(request: &'a Object<'_>) -> Vec<&'a RawValue> {
    let mut urls = HashSet::new();
    let mut items = Vec::new();
    for message in listed(request.get("messages")) {
        let Ok(message) = fields(message) else { continue };
        for item in listed(message.get("content").copied()) {
            let Ok(entry) = fields(item) else { continue };
            let Some(kind) = entry.get("type").and_then(|kind| text(kind)) else { continue };
            if !TYPES.contains(&kind.as_str()) {
                continue;
            }
            let url = entry
                .get(kind.as_str())
                .and_then(|value| fields(value).ok())
                .and_then(|value| value.get("url").and_then(|url| text(url)))
                .filter(|url| !url.is_empty());
            if url.is_none_or(|url| urls.insert(url)) {
                items.push(item);
            }
        }
    }
    items
}

type Fields<'a> = std::collections::BTreeMap<Cow<'a, str>, &'a RawValue>;

fn fields(value: &RawValue) -> Result<Fields<'_>, serde_json::Error> {
    serde_json::from_str(value.get())
}

fn listed(value: Option<&RawValue>) -> Vec<&RawValue> {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Builds the request to an encoder: the client's request with one item as its only message.
pub(crate) fn body(request: &Object<'_>, item: &RawValue) -> Bytes {
    let mut body = request.clone();
    body.set_value("messages", &[Message { role: "user", content: [item] }]);
    Api::Completions.at_most_one_token(&mut body);
    api::no_stream(&mut body);
    body.to_vec().into()
}

#[derive(serde::Serialize)]
struct Message<'a> {
    role: &'static str,
    content: [&'a RawValue; 1],
}

/// Adds the locations of the embeddings to a request, and makes the engine compute the prompt whatever is cached.
pub(crate) fn add_locations(request: &mut Object<'_>, found: &EmbeddingLocations) {
    if !found.is_empty() {
        let mut transfer = Object::default();
        for (name, value) in found {
            transfer.set(name, Cow::Borrowed(value));
        }
        request.set_value(TRANSFER, &transfer);
    }
    shared_storage::ignore_threshold(request);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_item_counts_once_and_what_is_no_item_is_not_one() {
        let request = json!({"messages": [
            {"role": "system", "content": "s"},
            7,
            {"role": "user", "content": [
                {"type": "text", "text": "what"},
                {"type": "image_url", "image_url": {"url": "a"}},
                {"type": "image_url", "image_url": {"url": "a"}},
                {"type": "input_audio", "input_audio": {"data": "x"}},
                {"type": "input_audio", "input_audio": {"data": "x"}},
                {"image_url": {"url": "b"}},
                null,
            ]},
        ]})
        .to_string();
        let request = Object::parse(request.as_bytes()).unwrap();
        let found: Vec<Value> =
            items(&request).into_iter().map(|item| serde_json::from_str(item.get()).unwrap()).collect();
        let types: Vec<_> = found.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["image_url", "input_audio", "input_audio"]);
        for other in [r#"{"messages":"x"}"#, "{}", r#"{"messages":[{"content":[[]]}]}"#] {
            assert!(items(&Object::parse(other.as_bytes()).unwrap()).is_empty(), "{other}");
        }
    }

    #[test]
    fn only_an_object_of_parameters_says_where_embeddings_are() {
        let found = Encoder::Nixl.found(br#"{"ec_transfer_params":{"h":{"n":1}}}"#).unwrap();
        assert_eq!(found[0].1.get(), r#"{"n":1}"#);
        for answer in ["{}", r#"{"ec_transfer_params":"x"}"#, r#"{"ec_transfer_params":null}"#] {
            assert!(Encoder::Nixl.found(answer.as_bytes()).unwrap().is_empty(), "{answer}");
        }
        assert!(Encoder::Nixl.found(b"nojson").is_err());
        assert!(Encoder::Example.found(b"nojson").is_ok());
    }
}
