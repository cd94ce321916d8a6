//! The fields of request bodies, read leniently: a field of an unexpected type counts as absent, as in the reference, which
//! looks fields up in a generic map.

use std::{borrow::Cow, fmt, ops::Range};

use longboat_scheduler::Prompt;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    content::{Content, Dialect},
    parsed::{MAX_ELEMENTS, Reading},
    prompt_text::{PromptBuffer, Words},
    scalars::{Scalar, skip},
};

/// The top-level fields of all APIs.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    model: Option<&'a RawValue>,
    priority: Option<&'a RawValue>,
    pub(super) stream: bool,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) cache_salt: Option<Cow<'a, str>>,
    pub(super) messages: Option<MessageList<'a>>,
    pub(super) items: Option<PromptField<'a>>,
    pub(super) prompt: Option<PromptField<'a>>,
    pub(super) input: Option<PromptField<'a>>,
    pub(super) token_ids: Option<PromptField<'a>>,
    /// The tokens and the cache salt of a request to SGLang.
    pub(super) input_ids: Option<PromptField<'a>>,
    pub(super) extra_key: Option<Cow<'a, str>>,
    pub(super) instructions: Option<Words<'a>>,
    pub(super) system: Option<Content<'a>>,
    pub(super) tools: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Reads a whole body. Where it is easy, the error has the words of the reference.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        let kind = match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => return Err("unexpected end of JSON input".to_owned()),
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            Some(b'0'..=b'9' | b'-') => "number",
            Some(_) => "",
        };
        if !kind.is_empty() {
            return match serde_json::from_slice::<IgnoredAny>(body) {
                Err(error) => Err(go_message(&error)),
                Ok(_) => Err(format!(
                    "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
                )),
            };
        }
        serde_json::from_slice::<Option<Self>>(body)
            .map(Option::unwrap_or_default)
            .map_err(|error| go_message(&error))
    }

    /// Whether a list has more elements than the limit.
    pub(super) fn is_too_long(&self) -> bool {
        let fields = [&self.prompt, &self.input, &self.items, &self.token_ids, &self.input_ids];
        self.messages.as_ref().is_some_and(|list| list.too_long)
            || fields.into_iter().flatten().any(PromptField::is_too_long)
            || self.system.as_ref().is_some_and(|content| content.too_long)
    }

    /// Returns the model and the place of its value in the body.
    pub(super) fn model(&self, body: &[u8]) -> Option<(String, Range<usize>)> {
        let raw = self.model?.get();
        let name = serde_json::from_str::<String>(raw).ok()?;
        Some((name, place(raw, body)?))
    }

    /// Returns the place of the priority's value in the body, if it has one.
    pub(super) fn priority_at(&self, body: &[u8]) -> Option<Range<usize>> {
        place(self.priority?.get(), body)
    }
}

/// Returns the place of a slice of the body in the body.
fn place(raw: &str, body: &[u8]) -> Option<Range<usize>> {
    let start = (raw.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let range = start..start + raw.len();
    (body.get(range.clone()) == Some(raw.as_bytes())).then_some(range)
}

fn go_message(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Top;
        impl<'de> Visitor<'de> for Top {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key::<Scalar<'de>>()? {
                    match key.text().as_deref().unwrap_or_default() {
                        "model" => fields.model = Some(map.next_value()?),
                        "priority" => fields.priority = Some(map.next_value()?),
                        "stream" => fields.stream = matches!(map.next_value()?, Scalar::Flag(true)),
                        "max_tokens" => fields.max_tokens = map.next_value::<Scalar<'de>>()?.number(),
                        "max_completion_tokens" => {
                            fields.max_completion_tokens = map.next_value::<Scalar<'de>>()?.number();
                        }
                        "max_output_tokens" => {
                            fields.max_output_tokens = map.next_value::<Scalar<'de>>()?.number();
                        }
                        "cache_salt" => fields.cache_salt = map.next_value::<Scalar<'de>>()?.text(),
                        "messages" => fields.messages = map.next_value::<Input<'de>>()?.into_messages(),
                        "items" => fields.items = Some(map.next_value()?),
                        "prompt" => fields.prompt = Some(map.next_value()?),
                        "input" => fields.input = Some(map.next_value()?),
                        "token_ids" => fields.token_ids = Some(map.next_value()?),
                        "input_ids" => fields.input_ids = Some(map.next_value()?),
                        "extra_key" => fields.extra_key = map.next_value::<Scalar<'de>>()?.text(),
                        "instructions" => fields.instructions = Words::of(map.next_value()?),
                        "system" => fields.system = Some(map.next_value()?),
                        "tools" => fields.tools = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Top)
    }
}

/// A prompt in any of its shapes.
#[derive(Debug)]
pub(super) struct PromptField<'a> {
    input: Input<'a>,
    raw: &'a RawValue,
}

impl PromptField<'_> {
    pub(super) fn is_given(&self) -> bool {
        !matches!(self.input, Input::Other)
    }

    pub(super) fn is_multimodal(&self) -> bool {
        matches!(&self.input, Input::List(list) if list.multimodal)
    }

    fn is_too_long(&self) -> bool {
        matches!(&self.input, Input::List(list) if list.too_long)
    }

    /// Whether the whole prompt is tokens, in one list or in several.
    pub(super) fn is_tokens(&self) -> bool {
        let Input::List(list) = &self.input else { return false };
        match list.entries.as_slice() {
            [] => !list.tokens.is_empty(),
            entries => {
                list.tokens.is_empty() && entries.iter().all(|entry| matches!(entry, Entry::Tokens(_)))
            }
        }
    }

    /// Returns one prompt per string or token list. Returns `None` if the field is not a prompt.
    pub(super) fn prompts(&self, reading: &Reading) -> Option<Vec<Prompt>> {
        match &self.input {
            Input::Other => None,
            Input::Text(words) => {
                let mut text = PromptBuffer::new(reading);
                text.push_words(*words);
                Some(vec![text.into_prompt()])
            }
            Input::List(list) => {
                if !list.tokens.is_empty() {
                    return Some(vec![list.tokens.clone().into()]);
                }
                Some(
                    list.entries
                        .iter()
                        .map(|entry| match entry {
                            Entry::Tokens(tokens) => tokens.clone().into(),
                            Entry::Text(_) | Entry::Message { .. } => {
                                let mut text = PromptBuffer::new(reading);
                                entry.append_to(&mut text, Dialect::OpenAi);
                                text.into_prompt()
                            }
                        })
                        .collect(),
                )
            }
        }
    }

    /// Appends the field as one text. Of a list, that is its JSON as the client spelled it, with the calls of tools and whatever
    /// else its items have.
    pub(super) fn append_to(&self, text: &mut PromptBuffer<'_>) {
        match &self.input {
            Input::Other => {}
            Input::Text(own) => text.push_words(*own),
            Input::List(_) => text.push(self.raw.get().as_bytes()),
        }
    }
}

/// A string, a list of tokens, or a list of strings, token lists and messages.
#[derive(Debug)]
enum Input<'a> {
    Text(Words<'a>),
    List(MessageList<'a>),
    Other,
}

impl<'a> Input<'a> {
    fn into_messages(self) -> Option<MessageList<'a>> {
        match self {
            Self::List(list) => Some(list),
            Self::Text(_) | Self::Other => None,
        }
    }
}

/// The entries of a list.
#[derive(Debug, Default)]
pub(super) struct MessageList<'a> {
    entries: Vec<Entry<'a>>,
    /// Numbers directly in the list: tokens, as little-endian bytes.
    tokens: Vec<u8>,
    pub(super) multimodal: bool,
    /// Whether the list has more entries than the limit. The rest is dropped.
    too_long: bool,
}

#[derive(Debug)]
enum Entry<'a> {
    Text(Cow<'a, str>),
    Tokens(Vec<u8>),
    Message { role: Option<Cow<'a, str>>, content: Content<'a> },
}

impl MessageList<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn append_to(&self, text: &mut PromptBuffer<'_>, dialect: Dialect) {
        text.push(&self.tokens);
        for entry in &self.entries {
            entry.append_to(text, dialect);
        }
    }
}

impl Entry<'_> {
    fn append_to(&self, text: &mut PromptBuffer<'_>, dialect: Dialect) {
        match self {
            Entry::Text(own) => text.push(own.as_bytes()),
            Entry::Tokens(tokens) => text.push(tokens),
            Entry::Message { role, content } => {
                text.push(role.as_deref().unwrap_or_default().as_bytes());
                content.append_to(text, dialect);
            }
        }
    }
}

impl<'de> Deserialize<'de> for PromptField<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        if let Some(words) = Words::of(raw) {
            return Ok(Self { input: Input::Text(words), raw });
        }
        let input = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self { input, raw })
    }
}

impl<'de> Deserialize<'de> for Input<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Input<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = MessageList::default();
                while let Some(element) = seq.next_element::<Element<'de>>()? {
                    match element {
                        Element::Token(token) => list.tokens.extend_from_slice(&token.to_le_bytes()),
                        Element::Entry(_) if list.entries.len() >= MAX_ELEMENTS => list.too_long = true,
                        Element::Entry(entry) => {
                            if let Entry::Message { content, .. } = &entry {
                                list.multimodal |= content.multimodal;
                                list.too_long |= content.too_long;
                            }
                            list.entries.push(entry);
                        }
                        Element::Other => {}
                    }
                }
                Ok(Input::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_map(map).map(|_| Input::Other)
            }

            // Strings that may be prompts do not come here: they are taken from the raw value, without unescaping.
            skip!(Input::Other; visit_str: &str, visit_bool: bool, visit_u64: u64);
        }
        deserializer.deserialize_any(Any)
    }
}

enum Element<'a> {
    Token(u32),
    Entry(Entry<'a>),
    Other,
}

impl<'de> Deserialize<'de> for Element<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Element<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Element::Entry(Entry::Text(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Element::Entry(Entry::Text(Cow::Owned(text.to_owned()))))
            }

            fn visit_u64<E>(self, token: u64) -> Result<Self::Value, E> {
                Ok(u32::try_from(token).map_or(Element::Other, Element::Token))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut tokens = Vec::new();
                while let Some(element) = seq.next_element::<Scalar<'de>>()? {
                    if let Scalar::Token(token) = element {
                        tokens.extend_from_slice(&token.to_le_bytes());
                    }
                }
                Ok(Element::Entry(Entry::Tokens(tokens)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut role = None;
                let mut content = Content::default();
                while let Some(key) = map.next_key::<Scalar<'de>>()? {
                    match key.text().as_deref().unwrap_or_default() {
                        "role" => role = map.next_value::<Scalar<'de>>()?.text(),
                        "content" => content = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Element::Entry(Entry::Message { role, content }))
            }

            skip!(Element::Other; visit_bool: bool);
        }
        deserializer.deserialize_any(Any)
    }
}
