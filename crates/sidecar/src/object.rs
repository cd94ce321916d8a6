//! A JSON object whose values stay as text, so that unread values are sent on unchanged byte for byte.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::{RawValue, to_raw_value};

use crate::pieces::Pieces;

/// Longer values are shared instead of copied.
const SHARE_THRESHOLD_BYTES: usize = 16 << 10;

/// An object's entries in their order. If several entries have the same name, the last one counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'a> {
    /// By name, in constant time: a client may send a million of them.
    entries: IndexMap<String, Cow<'a, RawValue>>,
    /// The text that the object was read from, if its values may be shared.
    source: Option<&'a Bytes>,
}

// === impl Object ===

impl<'a> Object<'a> {
    /// Reads an object. The error is serde_json's, with the place of the error.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Like [`Self::parse`], but long values are shared with the text instead of copied.
    pub(crate) fn of(text: &'a Bytes) -> Result<Self, serde_json::Error> {
        Ok(Self { source: Some(text), ..Self::parse(text)? })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.entries.get(name).map(AsRef::as_ref)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    pub(crate) fn set(&mut self, name: &str, value: Cow<'a, RawValue>) {
        self.entries.insert(name.to_owned(), value);
    }

    /// Sets a value that always serializes.
    pub(crate) fn set_value(&mut self, name: &str, value: &impl Serialize) {
        if let Ok(value) = to_raw_value(value) {
            self.set(name, Cow::Owned(value));
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.entries.shift_remove(name);
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the object as text. Long values are shared with the source text.
    pub(crate) fn to_pieces(&self) -> Pieces {
        let mut pieces = Pieces::default();
        let mut text = Vec::with_capacity(1 << 10);
        text.push(b'{');
        for (index, (name, value)) in self.entries.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, name).expect("a string is written into memory");
            text.push(b':');
            match self.shared(value.get()) {
                Some(value) => {
                    pieces.push(std::mem::take(&mut text));
                    pieces.push(value);
                }
                None => text.extend_from_slice(value.get().as_bytes()),
            }
        }
        text.push(b'}');
        pieces.push(text);
        pieces
    }

    fn shared(&self, value: &str) -> Option<Bytes> {
        let source = self.source.filter(|_| value.len() > SHARE_THRESHOLD_BYTES)?;
        let (whole, part) = (source.as_ptr_range(), value.as_bytes().as_ptr_range());
        // A value that was set is not in the text, and `slice_ref` would panic.
        (whole.start <= part.start && part.end <= whole.end).then(|| source.slice_ref(value.as_bytes()))
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.entries.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut object = Object::default();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    // Of a repeated name, the last value counts, at the place of the first.
                    object.entries.insert(name, Cow::Borrowed(value));
                }
                Ok(object)
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_keeps_its_bytes() {
        let text = br#"{"seed":9007199254740993,"t":1e-7,"s":"\u003c<","a":[ 1 , 2 ]}"#;
        let mut object = Object::parse(text).unwrap();
        assert_eq!(object.to_vec(), text);
        object.set_value("seed", &1);
        object.set_value("new", &false);
        object.remove("t");
        assert_eq!(object.to_vec(), br#"{"seed":1,"s":"\u003c<","a":[ 1 , 2 ],"new":false}"#);
    }

    #[test]
    fn a_long_value_is_shared_and_the_text_is_the_same() {
        let long = "x".repeat(SHARE_THRESHOLD_BYTES);
        let text = Bytes::from(format!(r#"{{"a\"b":1,"long":["{long}"],"c":[]}}"#));
        for object in [Object::parse(&text).unwrap(), Object::of(&text).unwrap()] {
            let mut object = object.clone();
            assert_eq!(object.to_pieces().whole(), object.to_vec());
            object.set_value("c", &long);
            object.set_value("d", &2);
            assert_eq!(object.to_pieces().whole(), object.to_vec());
        }
        assert_eq!(Object::default().to_pieces().whole(), "{}");
        let value = Object::of(&text).unwrap().to_pieces().whole();
        assert_ne!(value.as_ptr(), text.as_ptr());
        let shared = Object::of(&text).unwrap();
        let shared = shared.shared(shared.get("long").unwrap().get()).unwrap();
        assert!(text.as_ptr_range().contains(&shared.as_ptr()));
    }

    #[test]
    fn of_two_entries_with_one_name_the_last_counts() {
        assert_eq!(Object::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap().to_vec(), br#"{"a":3,"b":2}"#);
    }

    #[test]
    fn only_an_object_is_an_object() {
        for text in ["", "null", "[]", "\"x\"", "1", "{\"a\":", "{} {}"] {
            assert!(Object::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
