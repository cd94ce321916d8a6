//! Parses and writes `fieldsV1`: nested objects with the keys `f:NAME`, `k:{KEYS}`, `v:VALUE`, `i:INDEX`, and `.` for the
//! path itself.

use serde_json::{Map, Value};

use super::{Element, Set, set::Node};

/// A `fieldsV1` that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A value that is not an object.
    #[error("a field set must be an object")]
    NotAnObject,
    /// A key without a known prefix.
    #[error("unknown path element `{0}`")]
    UnknownElement(String),
    /// The text after `k:` or `v:` is not JSON, or the text after `i:` is not a number.
    #[error("malformed path element `{0}`")]
    Malformed(String),
}

impl Set {
    /// Parses a `fieldsV1` value. Elements of an unknown kind are an error.
    pub(crate) fn from_fields_v1(value: &Value) -> Result<Self, FieldsError> {
        let map = value.as_object().ok_or(FieldsError::NotAnObject)?;
        let mut set = Self::default();
        for (key, inner) in map {
            if key == "." {
                continue;
            }
            let inner_map = inner.as_object().ok_or(FieldsError::NotAnObject)?;
            let below = Self::from_fields_v1(inner)?;
            let member = inner_map.is_empty() || inner_map.contains_key(".");
            set.put(Element::from_key(key)?, member, below);
        }
        Ok(set)
    }

    /// The `fieldsV1` value of this set.
    pub(crate) fn to_fields_v1(&self) -> Value {
        Value::Object(self.to_map())
    }

    fn to_map(&self) -> Map<String, Value> {
        self.nodes.iter().map(|(element, node)| (element.to_key(), Value::Object(node.to_map()))).collect()
    }
}

impl Node {
    fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        if self.member && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        map.extend(self.below.to_map());
        map
    }
}

impl Element {
    fn from_key(key: &str) -> Result<Self, FieldsError> {
        let malformed = || FieldsError::Malformed(key.to_owned());
        let (kind, rest) = key.split_once(':').ok_or_else(|| FieldsError::UnknownElement(key.to_owned()))?;
        match kind {
            "f" => Ok(Self::Field(rest.to_owned())),
            "v" => serde_json::from_str(rest).map(Self::Value).map_err(|_| malformed()),
            "i" => rest.parse().map(Self::Index).map_err(|_| malformed()),
            "k" => {
                let Ok(Value::Object(map)) = serde_json::from_str(rest) else { return Err(malformed()) };
                let mut keys: Vec<(String, Value)> = map.into_iter().collect();
                keys.sort_by(|left, right| left.0.cmp(&right.0));
                Ok(Self::Key(keys))
            }
            _ => Err(FieldsError::UnknownElement(key.to_owned())),
        }
    }

    fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(keys) => {
                let words: Vec<String> = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", words.join(","))
            }
        }
    }
}
