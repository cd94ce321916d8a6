//! The stored form of an object.

use std::{borrow::Cow, fmt, sync::Arc};

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::de::DeserializeOwned;

use crate::{
    compressed::{Compressed, Dictionary},
    version::Version,
};

/// An object in its stored form.
pub enum StoredObject<K> {
    /// Decoded, for objects that are read often.
    Decoded(Arc<K>),
    /// As text, for objects that are rarely read.
    Compressed(Arc<CompressedObject<K>>),
    /// Only the reason why the object cannot be decoded.
    Unreadable(Arc<UndecodableObject>),
}

/// An object as text.
pub struct CompressedObject<K> {
    version: Version,
    pub(crate) text: Compressed<K>,
}

/// An object that exists and cannot be decoded.
pub struct UndecodableObject {
    version: Version,
    pub(crate) reason: String,
}

// === impl StoredObject ===

impl<K> Clone for StoredObject<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Decoded(object) => Self::Decoded(Arc::clone(object)),
            Self::Compressed(text) => Self::Compressed(Arc::clone(text)),
            Self::Unreadable(why) => Self::Unreadable(Arc::clone(why)),
        }
    }
}

impl<K> fmt::Debug for StoredObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decoded(_) => "Decoded(..)",
            Self::Compressed(_) => "Compressed(..)",
            Self::Unreadable(_) => "Unreadable(..)",
        })
    }
}

impl<K> StoredObject<K> {
    /// Creates the stored form of an object that cannot be decoded for this reason.
    pub(crate) fn unreadable(metadata: &ObjectMeta, reason: String) -> Self {
        Self::Unreadable(Arc::new(UndecodableObject { version: Version::of(metadata), reason }))
    }
}

impl<K: DeserializeOwned> StoredObject<K> {
    /// Stores an object with this text.
    pub(crate) fn compress(
        metadata: &ObjectMeta,
        text: &str,
        dictionary: &Dictionary,
        is_typical: bool,
    ) -> Self {
        Self::Compressed(Arc::new(CompressedObject {
            version: Version::of(metadata),
            text: Compressed::new(text, dictionary, is_typical),
        }))
    }
}

impl<K: Metadata<Ty = ObjectMeta>> StoredObject<K> {
    /// Decodes the object.
    ///
    /// # Errors
    /// The reason why it cannot be decoded.
    pub fn read(&self) -> Result<Arc<K>, String> {
        match self {
            Self::Decoded(object) => Ok(Arc::clone(object)),
            Self::Compressed(object) => object.text.read().map(Arc::new),
            Self::Unreadable(why) => Err(why.reason.clone()),
        }
    }

    /// Decodes only its metadata.
    ///
    /// # Errors
    /// The reason why it cannot be decoded.
    pub fn metadata(&self) -> Result<Cow<'_, ObjectMeta>, String> {
        match self {
            Self::Decoded(object) => Ok(Cow::Borrowed(object.metadata())),
            Self::Compressed(object) => object.text.metadata().map(Cow::Owned),
            Self::Unreadable(why) => Err(why.reason.clone()),
        }
    }

    /// The identity and version of the object, without decoding it.
    pub fn version(&self) -> Cow<'_, Version> {
        match self {
            Self::Decoded(object) => Cow::Owned(Version::of(object.metadata())),
            Self::Compressed(object) => Cow::Borrowed(&object.version),
            Self::Unreadable(why) => Cow::Borrowed(&why.version),
        }
    }
}
