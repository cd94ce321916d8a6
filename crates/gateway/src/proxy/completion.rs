//! The few fields of a request to OpenAI's API that the gateway reads.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::keys::BYTES_PER_TOKEN;

/// Texts that vLLM (pydantic) reads as `true`, in lower case.
const TRUE: [&str; 8] = ["true", "1", "\"true\"", "\"1\"", "\"t\"", "\"y\"", "\"yes\"", "\"on\""];

/// A request body, as far as the gateway understands it.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) model: Option<String>,
    /// Whether the answer is a stream of events.
    pub(super) stream: bool,
    /// The text of the prompt, in bytes. Pictures and other data do not count.
    pub(super) prompt_bytes: u64,
    body: Bytes,
    /// Where the body has `stream_options`, and their value.
    stream_options: Option<(Range<usize>, Value)>,
}

/// Reads a field that is there. Otherwise serde would take `null` for an absent field, and the field would come twice.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

// === impl Completion ===

impl Completion {
    /// Reads a body. A field that comes twice is an error, because the engine may take the other one.
    pub(super) fn of(chunks: &[Bytes]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow)]
            model: Option<Cow<'a, str>>,
            #[serde(borrow)]
            stream: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            stream_options: Option<&'a RawValue>,
            #[serde(borrow)]
            prompt: Option<&'a RawValue>,
            #[serde(borrow)]
            messages: Option<&'a RawValue>,
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        // One text, because strings and numbers may be cut anywhere.
        let body = match chunks {
            [only] => only.clone(),
            several => several.concat().into(),
        };
        let fields: Fields<'_> = serde_json::from_slice(&body)?;
        let span = |raw: &RawValue| {
            // A raw value is a part of the text from which it was read.
            let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
            start..start + raw.get().len()
        };
        let options = |raw: &RawValue| {
            Ok::<_, serde_json::Error>((span(raw), serde_json::from_str::<Value>(raw.get())?))
        };
        let stream_options = fields.stream_options.map(options).transpose()?;
        let model = fields.model.map(Cow::into_owned);
        let stream = fields.stream.is_some_and(|raw| TRUE.contains(&raw.get().to_ascii_lowercase().as_str()));
        let prompts = [fields.prompt, fields.messages, fields.input].into_iter().flatten();
        let prompt_bytes = prompts.map(TextBytes::of).sum();
        Ok(Self { model, stream, prompt_bytes, body, stream_options })
    }

    /// Whether the client asks for the usage at the end of a stream.
    fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|(_, options)| options["include_usage"] == true)
    }

    /// Returns the body with a request for the usage at the end of the stream. `None` if it has one already.
    pub(super) fn with_usage(&self) -> Option<Vec<Bytes>> {
        if self.includes_usage() {
            return None;
        }
        let (span, addition) = if let Some((span, options)) = &self.stream_options {
            let mut options = options.as_object().cloned().unwrap_or_default();
            options.insert("include_usage".into(), true.into());
            (span.clone(), Value::from(options).to_string())
        } else {
            // The body is an object and not empty, because it has the field `stream`.
            let start = self.body.iter().position(|byte| *byte == b'{')? + 1;
            (start..start, r#""stream_options":{"include_usage":true},"#.to_owned())
        };
        Some(vec![self.body.slice(..span.start), addition.into(), self.body.slice(span.end..)])
    }
}

/// The bytes of all texts in a JSON value. A number is a token of a prompt that the client has tokenized: it counts as much as
/// an estimated token.
#[derive(Debug, Clone, Copy, Default)]
struct TextBytes(u64);

// === impl TextBytes ===

impl TextBytes {
    /// Measures a value. One that the engine may read and this build cannot, such as half a surrogate pair, counts whole.
    fn of(value: &RawValue) -> u64 {
        serde_json::from_str(value.get()).map_or(value.get().len() as u64, |Self(bytes)| bytes)
    }
}

impl<'de> Deserialize<'de> for TextBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sum;

        impl<'de> Visitor<'de> for Sum {
            type Value = TextBytes;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("any JSON value")
            }

            fn visit_unit<E>(self) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }

            fn visit_bool<E>(self, _: bool) -> Result<TextBytes, E> {
                Ok(TextBytes(0))
            }

            fn visit_u64<E>(self, _: u64) -> Result<TextBytes, E> {
                Ok(TextBytes(BYTES_PER_TOKEN))
            }

            fn visit_i64<E>(self, _: i64) -> Result<TextBytes, E> {
                Ok(TextBytes(BYTES_PER_TOKEN))
            }

            fn visit_f64<E>(self, _: f64) -> Result<TextBytes, E> {
                Ok(TextBytes(BYTES_PER_TOKEN))
            }

            fn visit_str<E>(self, text: &str) -> Result<TextBytes, E> {
                Ok(TextBytes(if text.starts_with("data:") { 0 } else { text.len() as u64 }))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<TextBytes, A::Error> {
                let mut sum = 0;
                while let Some(TextBytes(bytes)) = items.next_element()? {
                    sum += bytes;
                }
                Ok(TextBytes(sum))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<TextBytes, A::Error> {
                let mut sum = 0;
                while let Some((IgnoredAny, TextBytes(bytes))) = fields.next_entry()? {
                    sum += bytes;
                }
                Ok(TextBytes(sum))
            }
        }

        deserializer.deserialize_any(Sum)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> Completion {
        Completion::of(&[Bytes::from(text.to_owned())]).unwrap()
    }

    #[test]
    fn a_stream_is_asked_for_its_usage_and_nothing_else_of_the_body_changes() {
        for (text, expected) in [
            (
                r#" {"stream":true,"model":"m"}"#,
                Some(r#" {"stream_options":{"include_usage":true},"stream":true,"model":"m"}"#),
            ),
            (
                r#"{"stream_options": null, "stream":true}"#,
                Some(r#"{"stream_options": {"include_usage":true}, "stream":true}"#),
            ),
            (
                r#"{"stream_options":{"include_usage":false,"continuous_usage_stats":true},"stream":true}"#,
                Some(
                    r#"{"stream_options":{"continuous_usage_stats":true,"include_usage":true},"stream":true}"#,
                ),
            ),
            (r#"{"stream_options":{"include_usage":true},"stream":true}"#, None),
        ] {
            let found = of(text).with_usage().map(|chunks| String::from_utf8(chunks.concat()).unwrap());
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(found.as_deref().map(value), expected.map(value), "{text}");
            if let Some(found) = found {
                assert!(found.contains("stream\":true"), "{found}");
            }
        }
    }

    #[test]
    fn the_text_of_a_prompt_is_measured_in_every_form() {
        let picture =
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAAAAAAAAAAAAAA"}});
        for (body, expected) in [
            (json!({"prompt": "12345678"}), 8),
            (json!({"prompt": ["1234", "5678"]}), 8),
            (json!({"prompt": [[1, 2], [3]]}), 12),
            (json!({"messages": [{"role": "user", "content": "1234"}]}), 8),
            (json!({"messages": [{"content": [picture]}]}), 9),
            (json!({"input": null, "max_tokens": 7, "user": "1234"}), 0),
        ] {
            assert_eq!(of(&body.to_string()).prompt_bytes, expected, "{body}");
        }
    }

    #[test]
    fn what_the_engine_takes_for_a_stream_is_one() {
        for (value, is_stream) in [
            (json!(true), true),
            (json!("TRUE"), true),
            (json!(1), true),
            (json!(false), false),
            (json!(null), false),
        ] {
            assert_eq!(of(&json!({"stream": value}).to_string()).stream, is_stream, "{value}");
        }
        assert!(Completion::of(&[Bytes::from_static(br#"{"model":"a","model":"b"}"#)]).is_err());
        assert!(Completion::of(&[Bytes::from_static(b"[]")]).is_err());
        let split = [Bytes::from_static(br#"{"mod"#), Bytes::from_static(br#"el":"a"}"#)];
        assert_eq!(Completion::of(&split).unwrap().model.as_deref(), Some("a"));
    }
}
