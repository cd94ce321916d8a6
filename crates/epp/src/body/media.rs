//! Finds the images, audio and videos of a request. Only their identity matters, and not their content.
//!
//! This is a second read of the body. It happens only if `mm-embeddings-cache-producer` is configured.

use std::{borrow::Cow, fmt};

use longboat_scheduler::{Media, Modality};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    api::Api,
    content::Dialect,
    prompt_text::{Asset, Words},
};

/// The most items of a request. Further items are ignored.
const MAX_ITEMS: usize = 1024;

/// Returns the items of a body, without duplicates. A body that cannot be read has none.
pub(crate) fn media(api: Api, body: &[u8]) -> Vec<Media> {
    let mut found = MediaList::default();
    let Ok(top) = serde_json::from_slice::<Top<'_>>(body) else { return Vec::new() };
    match api {
        Api::ChatCompletions => found.messages(top.messages, Dialect::OpenAi),
        Api::Messages => found.messages(top.messages, Dialect::Anthropic),
        Api::Responses => found.messages(top.input, Dialect::OpenAi),
        Api::Generate => found.hashes(top.features),
        _ => {}
    }
    found.0
}

/// Returns the items in the `features` of a response of vLLM's render API.
pub(crate) fn rendered(features: Option<&RawValue>) -> Vec<Media> {
    let mut found = MediaList::default();
    found.hashes(features);
    found.0
}

#[derive(Debug, Default)]
struct MediaList(Vec<Media>);

impl MediaList {
    fn add(&mut self, modality: Modality, content: &[u8]) {
        let item = Media::new(modality, content);
        if self.0.len() < MAX_ITEMS && !self.0.contains(&item) {
            self.0.push(item);
        }
    }

    fn messages(&mut self, messages: Option<&RawValue>, dialect: Dialect) {
        each(messages, |message| {
            let content = object::<Message<'_>>(message).and_then(|message| message.content);
            match dialect {
                Dialect::OpenAi => self.openai_parts(content),
                Dialect::Anthropic => self.anthropic_parts(content, true),
            }
        });
    }

    fn openai_parts(&mut self, content: Option<&RawValue>) {
        each(content, |part| {
            let Some(part) = object::<Part<'_>>(part) else { return };
            self.asset(Modality::Image, part.image_url);
            self.asset(Modality::Video, part.video_url);
            self.asset(Modality::Audio, part.audio_url);
            self.asset(Modality::Audio, part.input_audio);
        });
    }

    /// `nested` says whether the results of tools, which are also lists of parts, are searched.
    fn anthropic_parts(&mut self, content: Option<&RawValue>, nested: bool) {
        each(content, |part| {
            let Some(part) = object::<Part<'_>>(part) else { return };
            match part.r#type.map(RawValue::get) {
                Some("\"image\"") => self.asset(Modality::Image, part.source),
                Some("\"tool_result\"") if nested => self.anthropic_parts(part.content, false),
                _ => {}
            }
        });
    }

    /// Adds an item. It is identified by its URL or its data, as spelled in the body.
    fn asset(&mut self, modality: Modality, asset: Option<&RawValue>) {
        if let Some(Content::Url(content) | Content::Data(content, _)) = asset.and_then(content) {
            self.add(modality, content.get().as_bytes());
        }
    }

    /// Adds items by the hashes of a tokenizer, which has one list per modality.
    fn hashes(&mut self, features: Option<&RawValue>) {
        let Some(features) = features.and_then(object::<Features<'_>>) else { return };
        let Some(by_modality) = features.mm_hashes else { return };
        let mut by_modality = serde_json::Deserializer::from_str(by_modality.get());
        for (modality, hashes) in by_modality.deserialize_map(Hashes).unwrap_or_default() {
            each(Some(hashes), |hash| {
                if hash.get().starts_with('"') {
                    self.add(modality, hash.get().as_bytes());
                }
            });
        }
    }
}

/// The URL of an item, or its data and their format.
enum Content<'a> {
    Url(&'a RawValue),
    Data(&'a RawValue, Option<&'a RawValue>),
}

fn content(asset: &RawValue) -> Option<Content<'_>> {
    if asset.get().starts_with('"') {
        return Some(Content::Url(asset));
    }
    let Source { url, data, format } = object(asset)?;
    url.map(Content::Url).or(data.map(|data| Content::Data(data, format)))
}

/// Returns the item as a part of a prompt.
pub(super) fn asset(modality: Modality, asset: &RawValue) -> Option<Asset<'_>> {
    Some(match (modality, content(asset)?) {
        (Modality::Image, Content::Url(url)) => Asset::Image(Words::of(url)?),
        (Modality::Image, Content::Data(data, _)) => Asset::ImageData(Words::of(data)?),
        (Modality::Audio, Content::Data(data, format)) => {
            Asset::AudioData(Words::of(data)?, format.and_then(Words::of).unwrap_or_default())
        }
        (Modality::Audio, Content::Url(url)) => Asset::Audio(Words::of(url)?),
        (Modality::Video | Modality::Other, Content::Url(content) | Content::Data(content, _)) => {
            Asset::Video(Words::of(content)?)
        }
    })
}

/// Visits the elements of a list. They are not collected, because a client may send millions.
fn each<'a>(raw: Option<&'a RawValue>, visit: impl FnMut(&'a RawValue)) {
    let Some(raw) = raw.filter(|raw| raw.get().starts_with('[')) else { return };
    // The reader of the body has already checked that the list is well-formed.
    let _ = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Elements(visit));
}

struct Elements<F>(F);

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }
}

/// Reads an object. Returns `None` for any other value, and for an object with a duplicate field.
fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

/// Objects whose fields are read only where they are needed.
macro_rules! objects {
    ($($name:ident { $($field:ident),* })*) => {$(
        #[derive(Deserialize)]
        struct $name<'a> {
            $(#[serde(borrow)] $field: Option<&'a RawValue>,)*
        }
    )*};
}

objects! {
    Top { messages, input, features }
    Message { content }
    Part { r#type, image_url, video_url, audio_url, input_audio, source, content }
    Source { url, data, format }
    Features { mm_hashes }
}

/// The lists by modality. A modality may occur several times.
struct Hashes;

impl<'de> Visitor<'de> for Hashes {
    type Value = Vec<(Modality, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lists of hashes by modality")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut lists = Vec::new();
        while let Some(modality) = map.next_key::<Cow<'de, str>>()? {
            if lists.len() < MAX_ITEMS {
                lists.push((Modality::of(&modality), map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(content: &str) -> Media {
        Media::new(Modality::Image, format!("\"{content}\"").as_bytes())
    }

    #[test]
    fn items_are_found_in_every_api_and_counted_once() {
        let chat = br#"{"model":"m","messages":[{"role":"system","content":"x"},{"role":"user","content":[
            {"type":"text","text":"what is this?"},
            {"type":"image_url","image_url":{"url":"http://a/1.png","detail":"low"}},
            {"type":"image_url","image_url":{"url":"http://a/1.png"}},
            {"type":"video_url","video_url":{"url":"http://a/2.mp4"}},
            {"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}"#;
        assert_eq!(
            media(Api::ChatCompletions, chat),
            [
                image("http://a/1.png"),
                Media::new(Modality::Video, b"\"http://a/2.mp4\""),
                Media::new(Modality::Audio, b"\"AAAA\""),
            ]
        );
        let responses =
            br#"{"input":[{"role":"user","content":[{"type":"input_image","image_url":"http://a/1.png"}]}]}"#;
        assert_eq!(media(Api::Responses, responses), [image("http://a/1.png")]);
        let messages = br#"{"messages":[{"role":"user","content":[
            {"type":"image","source":{"type":"base64","data":"AAAA"}},
            {"type":"document","source":{"type":"base64","data":"BBBB"}},
            {"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"http://a/3.png"}}]}]}]}"#;
        assert_eq!(media(Api::Messages, messages), [image("AAAA"), image("http://a/3.png")]);
        let generate =
            br#"{"token_ids":[1],"features":{"mm_hashes":{"image":["h1","h2","h1"],"audio":null}}}"#;
        assert_eq!(media(Api::Generate, generate), [image("h1"), image("h2")]);
    }

    #[test]
    fn what_is_no_item_is_none() {
        for body in [
            &br#"{"messages":[{"content":[{"image_url":7},{"image_url":{}},"x",null,{"source":"s"}]},3,{"content":{}}]}"#[..],
            br#"{"messages":"x"}"#,
            br#"{"messages":[{"content":[{"image_url":"a","image_url":"b"}]}]}"#,
            b"[]",
            b"",
        ] {
            assert!(media(Api::ChatCompletions, body).is_empty(), "{}", String::from_utf8_lossy(body));
        }
        let many: Vec<_> = (0..2000).map(|n| format!("{{\"image_url\":\"{n}\"}}")).collect();
        let body = format!("{{\"messages\":[{{\"content\":[{}]}}]}}", many.join(","));
        assert_eq!(media(Api::ChatCompletions, body.as_bytes()).len(), MAX_ITEMS);
    }
}
