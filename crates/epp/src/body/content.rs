//! The contents of messages, read as leniently as the other fields.

use std::fmt;

use longboat_scheduler::Modality;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    media,
    parsed::MAX_ELEMENTS,
    prompt_text::{Asset, PromptBuffer, Words},
    scalars::Scalar,
};

/// The API whose parts a message may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Anthropic,
}

/// A message's content: a text, or a list of parts.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    /// The pieces, each with the API that has it if the other one has not.
    pieces: Vec<(Piece<'a>, Option<Dialect>)>,
    pub(super) multimodal: bool,
    /// Whether there are more parts than the limit. The rest is dropped.
    pub(super) too_long: bool,
}

/// A piece of a prompt.
#[derive(Debug, Clone, Copy)]
enum Piece<'a> {
    Words(Words<'a>),
    /// Text that counts as it is spelled.
    Verbatim(&'a str),
    Media(Asset<'a>),
}

impl<'a> Content<'a> {
    /// `with_results` says whether the results of tools, whose contents are also lists of parts, are read.
    fn read(raw: &'a RawValue, with_results: bool) -> serde_json::Result<Self> {
        if let Some(words) = Words::of(raw) {
            return Ok(Self { pieces: vec![(Piece::Words(words), None)], ..Self::default() });
        }
        if !raw.get().starts_with('[') {
            return Ok(Self::default());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Parts { with_results })
    }

    pub(super) fn append_to(&self, text: &mut PromptBuffer<'_>, dialect: Dialect) {
        for (piece, _) in self.pieces.iter().filter(|(_, only)| only.is_none_or(|only| only == dialect)) {
            match *piece {
                Piece::Words(own) => text.push_words(own),
                Piece::Verbatim(own) => text.push(own.as_bytes()),
                Piece::Media(own) => text.push_media(own),
            }
        }
    }

    /// Appends the texts of a system prompt. Claude Code adds one that differs in each request, and that vLLM drops too.
    pub(super) fn append_system_to(&self, text: &mut PromptBuffer<'_>) {
        for (piece, _) in &self.pieces {
            if let Piece::Words(own) = *piece
                && !own.starts_with("x-anthropic-billing-header")
            {
                text.push_words(own);
            }
        }
    }

    fn push(&mut self, piece: Piece<'a>, only: Option<Dialect>) {
        if self.pieces.len() < MAX_ELEMENTS {
            self.pieces.push((piece, only));
        } else {
            self.too_long = true;
        }
    }

    fn push_words(&mut self, words: Option<Words<'a>>, only: Option<Dialect>) {
        if let Some(words) = words.filter(|words| !words.is_empty()) {
            self.push(Piece::Words(words), only);
        }
    }

    /// Appends what counts as prompt of a part.
    fn push_part(&mut self, part: &Part<'a>, with_results: bool) -> serde_json::Result<()> {
        const ANTHROPIC: Option<Dialect> = Some(Dialect::Anthropic);
        let is_image = part.kind.is_some_and(|kind| kind.get() == "\"image\"");
        self.multimodal |= part.media.is_some() || is_image;
        match part.kind.map(RawValue::get) {
            Some("\"thinking\"") => self.push_words(part.thinking.and_then(Words::of), ANTHROPIC),
            Some("\"tool_use\"") => {
                self.push_words(part.id.and_then(Words::of), ANTHROPIC);
                self.push_words(part.name.and_then(Words::of), ANTHROPIC);
                if let Some(input) = part.input {
                    self.push(Piece::Verbatim(input.get()), ANTHROPIC);
                }
            }
            Some("\"tool_result\"") => {
                if let Some(result) = part.content.filter(|_| with_results) {
                    self.push_result(Content::read(result, false)?);
                }
            }
            _ => self.push_words(part.text.and_then(Words::of), None),
        }
        if let Some(asset) = part.media.and_then(|(modality, asset)| media::asset(modality, asset)) {
            self.push(Piece::Media(asset), Some(Dialect::OpenAi));
        }
        // Anthropic's images have a source, as documents have one.
        let source = part.source.filter(|_| is_image);
        if let Some(asset) = source.and_then(|source| media::asset(Modality::Image, source)) {
            self.push(Piece::Media(asset), ANTHROPIC);
        }
        Ok(())
    }

    /// Appends the result of a tool: its texts, a line each, then its images.
    fn push_result(&mut self, result: Self) {
        self.multimodal |= result.multimodal;
        self.too_long |= result.too_long;
        let pieces = result.pieces.into_iter().filter(|(_, only)| *only != Some(Dialect::OpenAi));
        let (media, texts): (Vec<_>, Vec<_>) =
            pieces.map(|(piece, _)| piece).partition(|piece| matches!(piece, Piece::Media(_)));
        for (at, piece) in texts.into_iter().enumerate() {
            if at > 0 {
                self.push(Piece::Verbatim("\n"), Some(Dialect::Anthropic));
            }
            self.push(piece, Some(Dialect::Anthropic));
        }
        for piece in media {
            self.push(piece, Some(Dialect::Anthropic));
        }
    }
}

impl<'de> Deserialize<'de> for Content<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(<&RawValue>::deserialize(deserializer)?, true).map_err(D::Error::custom)
    }
}

/// A content that is a list of parts.
struct Parts {
    with_results: bool,
}

impl<'de> Visitor<'de> for Parts {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut content = Content::default();
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            if raw.get().starts_with('{') {
                let mut object = serde_json::Deserializer::from_str(raw.get());
                let part = object.deserialize_map(PartFields).map_err(A::Error::custom)?;
                content.push_part(&part, self.with_results).map_err(A::Error::custom)?;
            } else {
                content.push_words(Words::of(raw), None);
            }
        }
        Ok(content)
    }
}

/// One part of a content, whose fields are not read yet.
#[derive(Default)]
struct Part<'a> {
    kind: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    /// The call of a tool.
    id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    /// The result of a tool.
    content: Option<&'a RawValue>,
    /// Anthropic's image.
    source: Option<&'a RawValue>,
    /// OpenAI's image, audio or video.
    media: Option<(Modality, &'a RawValue)>,
}

struct PartFields;
impl<'de> Visitor<'de> for PartFields {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut part = Part::default();
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            let field = match key.text().as_deref().unwrap_or_default() {
                "type" => &mut part.kind,
                "text" => &mut part.text,
                "thinking" => &mut part.thinking,
                "id" => &mut part.id,
                "name" => &mut part.name,
                "input" => &mut part.input,
                "content" => &mut part.content,
                "source" => &mut part.source,
                "image_url" | "input_image" | "image" => {
                    part.media = Some((Modality::Image, map.next_value()?));
                    continue;
                }
                "input_audio" | "audio_url" => {
                    part.media = Some((Modality::Audio, map.next_value()?));
                    continue;
                }
                "video_url" => {
                    part.media = Some((Modality::Video, map.next_value()?));
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = Some(map.next_value()?);
        }
        Ok(part)
    }
}
