//! Images, sounds and videos in a conversation, for multimodal models.

use std::collections::BTreeMap;

use serde_json::Value;
use xxhash_rust::xxh64::xxh64;

use crate::Refusal;

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Modality {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// Moving pictures.
    Video,
}

/// The media that a model accepts in addition to text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// The most items of each kind in one prompt. Kinds that are not in the map are not accepted.
    pub limits: BTreeMap<Modality, usize>,
    /// How many tokens of a prompt an item takes.
    pub tokens: usize,
}

/// An item of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The kind of the item.
    pub modality: Modality,
    /// A hash of the item's content, or of the name that the client gave it. The same item has the same hash on every
    /// engine.
    pub id: u64,
}

// === impl Modality ===

impl Modality {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Image, Self::Audio, Self::Video];

    /// Returns vLLM's name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }
}

// === impl Media ===

impl Media {
    /// Refuses an item that exceeds the limit for its kind, in vLLM's words.
    fn check(&self, items: &[Item], next: Modality, place: &str) -> Result<(), Refusal> {
        let most = self.limits.get(&next).copied().unwrap_or_default();
        if items.iter().filter(|item| item.modality == next).count() < most {
            return Ok(());
        }
        let kind = next.name();
        Err(Refusal::field(place, format!("At most {most} {kind}(s) may be provided in one prompt.")))
    }
}

// === impl Item ===

impl Item {
    /// Returns the placeholder of the item in the text of a prompt.
    pub(crate) fn placeholder(self) -> String {
        format!("<|{}:{:016x}|>", self.modality.name(), self.id)
    }

    /// Returns the item's tokens. They depend on the content, so that prefix caches can distinguish prompts.
    pub(crate) fn tokens(self, count: usize) -> impl Iterator<Item = u32> {
        (0..count as u64).map(move |index| {
            let hash = xxh64(&index.to_le_bytes(), self.id);
            u32::try_from(hash >> 32).unwrap_or_default()
        })
    }
}

/// Returns the kind of item in parts of a message that have this type.
pub(crate) fn modality(kind: &str) -> Result<Modality, Refusal> {
    match kind {
        "image_url" | "input_image" => Ok(Modality::Image),
        "audio_url" | "input_audio" => Ok(Modality::Audio),
        "video_url" => Ok(Modality::Video),
        _ => {
            let kind: String = kind.chars().take(40).collect();
            let message = format!(
                "Unsupported chat content part type: '{kind}'. Supported types: audio_url, image_url, input_audio, \
                 input_image, input_text, output_text, refusal, text, thinking, video_url."
            );
            Err(Refusal::parameter("type", message, Some(&kind)))
        }
    }
}

/// Reads a part of a message that has an item of this kind. Returns its placeholder in the prompt.
pub(crate) fn read(
    part: &Value,
    modality: Modality,
    media: &Media,
    items: &mut Vec<Item>,
    place: &str,
) -> Result<String, Refusal> {
    let kind = part["type"].as_str().unwrap_or_default();
    media.check(items, modality, place)?;
    // Responses have `"image_url": "…"`, chat has `"image_url": {"url": "…"}`.
    let content = match kind {
        "input_image" => &part["image_url"],
        "input_audio" => &part["input_audio"]["data"],
        _ => &part[kind]["url"],
    };
    let Some(content) = content.as_str().filter(|content| !content.is_empty()) else {
        return Err(Refusal::field(place, format!("{place}: the part has no {}.", modality.name())));
    };
    if kind == "input_audio" {
        base64(content, place)?;
    } else {
        address(content, place)?;
    }
    // As in vLLM, the client's name of an item stands for its content.
    let name = part["uuid"].as_str().filter(|name| !name.is_empty()).unwrap_or(content);
    let item = Item { modality, id: xxh64(name.as_bytes(), 0) };
    items.push(item);
    Ok(item.placeholder())
}

/// Checks a URL as vLLM does, without fetching it.
fn address(url: &str, place: &str) -> Result<(), Refusal> {
    let refused = |message: &str| Err(Refusal::field(place, format!("{place}: {message}")));
    match url.split_once(':').map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest)) {
        Some((scheme, rest)) if scheme == "http" || scheme == "https" => {
            if rest.strip_prefix("//").is_some_and(|rest| !rest.is_empty()) {
                return Ok(());
            }
            refused("The URL names no host.")
        }
        Some((scheme, rest)) if scheme == "data" => match rest.split_once(";base64,") {
            Some((_, content)) => base64(content, place),
            None => refused("Only base64 data URLs are supported for now."),
        },
        Some((scheme, _)) if scheme == "file" => {
            refused("Cannot load local files without `--allowed-local-media-path`.")
        }
        _ => refused("The URL must be either a HTTP, data or file URL."),
    }
}

fn base64(content: &str, place: &str) -> Result<(), Refusal> {
    // Checked without decoding: the simulator needs a hash of an image only, and images have megabytes.
    let digits = content.trim_end_matches('=');
    let is_valid = !digits.is_empty()
        && content.len().is_multiple_of(4)
        && content.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
    if is_valid {
        return Ok(());
    }
    Err(Refusal::field(place, format!("{place}: the data is not valid base64.")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn media() -> Media {
        Media { limits: [(Modality::Image, 2), (Modality::Audio, 1)].into(), tokens: 4 }
    }

    fn read(part: &Value, items: &mut Vec<Item>) -> Result<String, Refusal> {
        super::read(part, modality(part["type"].as_str().unwrap())?, &media(), items, "p")
    }

    fn refusal(part: &Value) -> String {
        format!("{:?}", read(part, &mut Vec::new()).unwrap_err())
    }

    #[test]
    fn items_are_identified_by_content_or_by_uuid() {
        let mut items = Vec::new();
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        for part in [image("http://a/1.png"), image("data:image/png;base64,AAAA")] {
            read(&part, &mut items).unwrap();
        }
        assert_ne!(items[0].id, items[1].id);
        let mut again = Vec::new();
        read(&json!({"type": "input_image", "image_url": "http://a/1.png"}), &mut again).unwrap();
        assert_eq!(again[0], items[0]);
        let mut named_image = image("http://a/2.png");
        named_image["uuid"] = json!("http://a/1.png");
        read(&named_image, &mut again).unwrap();
        assert_eq!(again[1], items[0]);
    }

    #[test]
    fn bad_media_are_refused_in_the_words_of_vllm() {
        let video = json!({"type": "video_url", "video_url": {"url": "http://a/b"}});
        assert!(refusal(&video).contains("At most 0 video(s) may be provided in one prompt."));
        for (url, words) in [
            ("ftp://a/b", "The URL must be either a HTTP, data or file URL."),
            ("file:///etc/passwd", "Cannot load local files without `--allowed-local-media-path`."),
            ("data:image/png,AAAA", "Only base64 data URLs are supported for now."),
            ("data:image/png;base64,A*AA", "not valid base64"),
            ("data:image/png;base64,", "not valid base64"),
            ("http:", "names no host"),
            ("", "has no image"),
        ] {
            let message = refusal(&json!({"type": "image_url", "image_url": {"url": url}}));
            assert!(message.contains(words), "{url}: {message}");
        }
        assert!(refusal(&json!({"type": "image_url", "image_url": 7})).contains("has no image"));
        assert!(refusal(&json!({"type": "image_embeds"})).contains("Unsupported chat content part type"));
    }
}
