//! Keys of the settings with typing errors.

use std::collections::BTreeMap;

use longboat_key::nearest;
use serde::{
    Deserialize,
    de::{Deserializer, Error as _, Visitor, value::Error},
    forward_to_deserialize_any,
};
use serde_json::Value;

use super::{
    Autoscaling, Credentials, RawIngress, RawLocalModel, RawScheduler, RawStorage, longboat::RawLongboat,
};

/// The keys of the ConfigMap that are read, each with the fields of its value.
fn sections() -> [(&'static str, &'static [&'static str]); 7] {
    [
        ("ingress", fields::<RawIngress>()),
        ("storageInitializer", fields::<RawStorage>()),
        ("credentials", fields::<Credentials>()),
        ("scheduler", fields::<RawScheduler>()),
        ("localModel", fields::<RawLocalModel>()),
        ("autoscaling-wva-controller-config", fields::<Autoscaling>()),
        ("longboat", fields::<RawLongboat>()),
    ]
}

/// A key that nobody reads, and that is near to one that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisspeltKey {
    /// The key of the ConfigMap.
    pub section: String,
    /// The field of its value. `None` if the key itself is misspelt.
    pub field: Option<String>,
    /// The key that is read.
    pub meant: &'static str,
}

/// Returns the keys with typing errors. KServe has more keys than those that are read here, so other unknown keys are none.
pub fn misspelt_keys(data: &BTreeMap<String, String>) -> Vec<MisspeltKey> {
    let sections = sections();
    let names = || sections.iter().map(|(name, _)| *name);
    let mut all = Vec::new();
    for (section, text) in data {
        let Some((_, fields)) = sections.iter().find(|(name, _)| name == section) else {
            let meant = nearest(names(), section).filter(|meant| !data.contains_key(*meant));
            all.extend(meant.map(|meant| MisspeltKey { section: section.clone(), field: None, meant }));
            continue;
        };
        let Ok(Value::Object(value)) = serde_json::from_str(text) else { continue };
        for field in value.keys().filter(|field| !fields.contains(&field.as_str())) {
            let meant = nearest(fields.iter().copied(), field).filter(|meant| !value.contains_key(*meant));
            let misspelt =
                |meant| MisspeltKey { section: section.clone(), field: Some(field.clone()), meant };
            all.extend(meant.map(misspelt));
        }
    }
    all
}

/// Returns the names of the fields that a type reads.
fn fields<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The names are known when the type asks for its fields, and there is nothing else to read.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

/// Takes the names of the fields for which a type asks.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only the names are wanted"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_near_to_one_that_is_read_are_misspelt() {
        let data = |entries: &[(&str, &str)]| -> Vec<(String, Option<String>, &'static str)> {
            let data = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let all = misspelt_keys(&data).into_iter();
            all.map(|key| (key.section, key.field, key.meant)).collect()
        };
        assert_eq!(
            data(&[
                ("ingres", "{}"),
                ("longboat", r#"{"pickerClient": [], "image": ""}"#),
                ("localModel", r#"{"enabled": true, "enable": true, "jobNamespace": "n"}"#),
                ("storageInitializer", r#"{"enableLLM": 1, "cpuLimits": "1"}"#),
                ("inferenceService", "{}"),
                ("_example", "no JSON"),
            ]),
            [
                ("ingres".to_owned(), None, "ingress"),
                ("longboat".to_owned(), Some("pickerClient".to_owned()), "pickerClients"),
                ("storageInitializer".to_owned(), Some("cpuLimits".to_owned()), "cpuLimit"),
            ]
        );
        let tls = data(&[("ingress", r#"{"enableLLMInferenceServiceTls": true}"#)]);
        assert_eq!(tls[0].2, "enableLLMInferenceServiceTLS");
    }
}
