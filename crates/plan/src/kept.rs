//! How an object is kept: as it is, or as its text.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use lz4_flex::block::{compress_with_dict, decompress_into_with_dict};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::edition::Edition;

/// An object as it is kept. Typed objects are wide: a Deployment takes four times the room of its text, most of which is the same
/// for all services.
pub enum Kept<K> {
    /// As it is: for what is looked at often.
    Whole(Arc<K>),
    /// As its text: for what is looked at by few, and seldom.
    Packed(Arc<Packed<K>>),
}

/// An object as JSON, compressed.
pub struct Packed<K> {
    edition: Edition,
    compressed: Box<[u8]>,
    /// Bytes of the text.
    length: usize,
    sample: Option<Arc<[u8]>>,
    read: fn(&[u8]) -> Option<K>,
}

/// The text of one object of a kind, by which others are compressed: most of what children of services say is the same, if it is
/// printed by the same program, in one order.
#[derive(Debug, Default)]
pub struct Sample(OnceLock<Arc<[u8]>>);

// === impl Kept ===

impl<K> Clone for Kept<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Whole(object) => Self::Whole(Arc::clone(object)),
            Self::Packed(packed) => Self::Packed(Arc::clone(packed)),
        }
    }
}

impl<K> fmt::Debug for Kept<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole(_) => "Whole(..)",
            Self::Packed(_) => "Packed(..)",
        })
    }
}

impl<K: Serialize + DeserializeOwned + Metadata<Ty = ObjectMeta>> Kept<K> {
    /// An object as its text; by the sample, if there is one by now, which a typical object becomes where there is none.
    ///
    /// # Errors
    /// When it cannot be printed.
    pub fn packed(object: &K, sample: &Sample, is_typical: bool) -> Result<Self, serde_json::Error> {
        Ok(Self::of_text(object, &serde_json::to_vec(object)?, sample, is_typical))
    }
}

impl<K: DeserializeOwned + Metadata<Ty = ObjectMeta>> Kept<K> {
    /// As [`Self::packed`], of an object that was read from that text: it need not be printed.
    pub fn of_text(object: &K, text: &[u8], sample: &Sample, is_typical: bool) -> Self {
        let sample = match sample.0.get() {
            None if is_typical => Some(Arc::clone(sample.0.get_or_init(|| text.into()))),
            known => known.cloned(),
        };
        Self::Packed(Arc::new(Packed {
            edition: Edition::of(object.metadata()),
            compressed: compress_with_dict(text, sample.as_deref().unwrap_or_default()).into_boxed_slice(),
            length: text.len(),
            sample,
            // As a text, not as bytes: what reads objects from texts is there already.
            read: |text| serde_json::from_str(std::str::from_utf8(text).ok()?).ok(),
        }))
    }
}

impl<K: Metadata<Ty = ObjectMeta>> Kept<K> {
    /// The object.
    pub fn open(&self) -> Option<Arc<K>> {
        match self {
            Self::Whole(object) => Some(Arc::clone(object)),
            Self::Packed(packed) => packed.open().map(Arc::new),
        }
    }

    /// Its metadata, without reading the rest.
    pub fn metadata(&self) -> Option<Cow<'_, ObjectMeta>> {
        #[derive(Deserialize)]
        struct Part {
            metadata: ObjectMeta,
        }
        match self {
            Self::Whole(object) => Some(Cow::Borrowed(object.metadata())),
            Self::Packed(packed) => {
                let part: Part = serde_json::from_str(std::str::from_utf8(&packed.text()?).ok()?).ok()?;
                Some(Cow::Owned(part.metadata))
            }
        }
    }

    /// Which object it is, and which version of it, without reading it.
    pub fn edition(&self) -> Cow<'_, Edition> {
        match self {
            Self::Whole(object) => Cow::Owned(Edition::of(object.metadata())),
            Self::Packed(packed) => Cow::Borrowed(&packed.edition),
        }
    }
}

// === impl Packed ===

impl<K> Packed<K> {
    pub(crate) fn open(&self) -> Option<K> {
        (self.read)(&self.text()?)
    }

    fn text(&self) -> Option<Vec<u8>> {
        let mut text = vec![0; self.length];
        let sample = self.sample.as_deref().unwrap_or_default();
        let length = decompress_into_with_dict(&self.compressed, &mut text, sample).ok()?;
        text.truncate(length);
        Some(text)
    }
}
