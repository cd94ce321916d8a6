//! Trees of objects in which the parts that no conversion reads stay text.
//!
//! Most of an object consists of pods, managed fields and conditions. Parsing these into trees and printing them again would
//! be nearly all of the work of a conversion. So they are cut out while the object is parsed, and inserted again while it is
//! written.

use std::fmt;

use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::{Map, Value, value::RawValue};

/// How a large field is read.
enum Plan {
    /// The field stays text.
    Cut,
    /// Some of the field's own fields are cut out.
    Into(&'static [(&'static str, Self)]),
}

/// The large fields that are the same in both versions.
const OBJECT: Plan = Plan::Into(&[
    ("metadata", Plan::Into(&[("managedFields", Plan::Cut)])),
    (
        "spec",
        Plan::Into(&[
            ("template", Plan::Cut),
            ("worker", Plan::Cut),
            ("scaling", Plan::Cut),
            (
                "prefill",
                Plan::Into(&[("template", Plan::Cut), ("worker", Plan::Cut), ("scaling", Plan::Cut)]),
            ),
            (
                "router",
                Plan::Into(&[
                    ("route", Plan::Cut),
                    (
                        "scheduler",
                        Plan::Into(&[
                            ("template", Plan::Cut),
                            ("config", Plan::Cut),
                            ("tokenizer", Plan::Cut),
                        ]),
                    ),
                ]),
            ),
        ]),
    ),
    ("status", Plan::Into(&[("conditions", Plan::Cut)])),
]);

/// An object without its large parts.
#[derive(Debug)]
pub(crate) struct SparseObject<'a> {
    /// The tree. In place of a part that was cut out, it has the index of the part.
    pub(crate) tree: Value,
    parts: Vec<&'a RawValue>,
}

struct SparseSeed<'p, 'a> {
    plan: &'static Plan,
    parts: &'p mut Vec<&'a RawValue>,
}

struct CompleteObject<'p, 'a> {
    plan: Option<&'static Plan>,
    tree: &'p Value,
    parts: &'p [&'a RawValue],
}

// === impl SparseObject ===

impl<'a> SparseObject<'a> {
    /// Parses an object.
    ///
    /// # Errors
    ///
    /// If a part that is parsed is nested too deeply. The syntax was already checked.
    pub(crate) fn read(object: &'a RawValue) -> Result<Self, serde_json::Error> {
        let mut parts = Vec::new();
        let seed = SparseSeed { plan: &OBJECT, parts: &mut parts };
        let tree = seed.deserialize(&mut serde_json::Deserializer::from_str(object.get()))?;
        Ok(Self { tree, parts })
    }
}

impl Serialize for SparseObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CompleteObject { plan: Some(&OBJECT), tree: &self.tree, parts: &self.parts }.serialize(serializer)
    }
}

// === impl Plan ===

impl Plan {
    fn of(&'static self, field: &str) -> Option<&'static Self> {
        let Self::Into(fields) = self else { return None };
        fields.iter().find(|(name, _)| *name == field).map(|(_, plan)| plan)
    }
}

// === impl SparseSeed ===

impl<'a> DeserializeSeed<'a> for SparseSeed<'_, 'a> {
    type Value = Value;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for SparseSeed<'_, 'a> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match self.plan.of(&key) {
                None => entries.next_value()?,
                Some(Plan::Cut) => {
                    self.parts.push(entries.next_value()?);
                    Value::from(self.parts.len() - 1)
                }
                Some(plan) => entries.next_value_seed(SparseSeed { plan, parts: &mut *self.parts })?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }
}

// === impl CompleteObject ===

impl Serialize for CompleteObject<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.plan, self.tree) {
            (Some(Plan::Cut), Value::Number(at)) => {
                // Only [`SparseObject::read`] puts values where the plan cuts, and these are indexes of parts.
                let part = at.as_u64().and_then(|at| self.parts.get(usize::try_from(at).ok()?));
                part.serialize(serializer)
            }
            (Some(plan), Value::Object(fields)) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, tree) in fields {
                    map.serialize_entry(
                        key,
                        &CompleteObject { plan: plan.of(key), tree, parts: self.parts },
                    )?;
                }
                map.end()
            }
            (_, tree) => tree.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_whatever_it_is() {
        for text in [
            r#"{"metadata":{"managedFields":[{"a":1}],"name":"x"},"spec":{"replicas":1,"template":{"a":[1,2]}}}"#,
            r#"{"spec":{"prefill":{"scaling":7,"template":null,"worker":"x"},"router":{"route":{},"scheduler":{"config":{"b":1,"a":2}}}}}"#,
            r#"{"metadata":[],"spec":5,"status":"x"}"#,
            r#"{"status":{"conditions":3}}"#,
            "null",
            "[{\"spec\":{\"template\":1}}]",
            "-1",
            "1.5",
            "true",
        ] {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&SparseObject::read(raw).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn of_a_field_that_is_there_twice_the_last_one_counts() {
        let raw: &RawValue = serde_json::from_str(r#"{"spec":{"template":1,"template":2}}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&SparseObject::read(raw).unwrap()).unwrap(),
            r#"{"spec":{"template":2}}"#
        );
    }
}
