//! Detection of duplicate fields in a JSON text: the parser keeps the last value, and the sender gets a warning or an error.

use std::{
    collections::HashSet,
    fmt::{self, Write},
};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The most duplicates to report, as in kube-apiserver.
const MAX_DUPLICATES: usize = 100;

/// Returns the dotted paths of the fields that `body`, a JSON text, contains more than once, in the order of the second
/// occurrences. Returns no paths for a text that is not JSON.
pub(crate) fn duplicate_fields(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let walk = Walk { path: &mut String::new(), found: &mut found };
    // The decoder reports syntax errors.
    let _ = walk.deserialize(&mut deserializer);
    found
}

struct Walk<'a> {
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

// === impl Walk ===

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if !seen.insert(key) && self.found.len() < MAX_DUPLICATES && !self.found.contains(self.path) {
                self.found.push(self.path.clone());
            }
            map.next_value_seed(Walk { path: self.path, found: self.found })?;
            self.path.truncate(length);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        let mut index = 0;
        loop {
            // Writing to a string cannot fail.
            let _ = write!(self.path, "[{index}]");
            let walk = Walk { path: self.path, found: self.found };
            if items.next_element_seed(walk)?.is_none() {
                break;
            }
            self.path.truncate(length);
            index += 1;
        }
        self.path.truncate(length);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(IgnoredAny).map(|_| ())
    }
}
