//! Objects as an API server sends them. They have managed fields, which are often larger than the rest and are not used here,
//! and sometimes they cannot be decoded.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, api::ApiResource, core::DynamicResourceScope};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// An object from a list or a watch, as JSON. Many objects need not be decoded: a controller already has most of the objects
/// that a watch reports from the responses to its own writes. An object that cannot be decoded does not affect the others.
///
/// It can only be deserialized directly from JSON text: in a watch event, `type` must precede `object`, as in all events that
/// Kubernetes writes.
#[derive(Clone)]
pub struct ReceivedObject {
    /// Its name and version only.
    pub metadata: ObjectMeta,
    /// Without managed fields.
    text: Box<str>,
}

/// An object for which only the metadata was requested.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct MetadataOnly(pub(crate) ReceivedObject);

/// The start of an object's text, up to its metadata. The rest, which is most of the text, is not parsed.
#[derive(Default)]
struct Head<'a> {
    metadata: Option<&'a RawValue>,
}

/// A field of an object.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Metadata,
    #[serde(other)]
    Other,
}

/// The metadata fields that are always decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline<'a> {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// Returns the text of an object with its managed fields replaced by null. Returns the same text if it has none.
pub fn without_managed_fields(text: &str) -> Cow<'_, str> {
    cut(text, metadata_of::<Outline<'_>>(text).ok().and_then(|found| found.managed_fields))
}

/// The metadata of an object, or a part of it; empty if the object has none.
fn metadata_of<'a, M: Deserialize<'a> + Default>(text: &'a str) -> Result<M, serde_json::Error> {
    let mut head = Head::default();
    let read = serde_json::Deserializer::from_str(text).deserialize_map(&mut head);
    // The visitor stops behind the metadata, which the parser calls an error. So its result only counts if there is no metadata.
    let Some(metadata) = head.metadata else { return read.map(|()| M::default()) };
    // Unknown fields are not an error.
    Ok(serde_json::from_str::<Option<_>>(metadata.get())?.unwrap_or_default())
}

fn cut<'a>(text: &'a str, part: Option<&RawValue>) -> Cow<'a, str> {
    let Some(part) = part else { return Cow::Borrowed(text) };
    // It is borrowed from the text, so its address says where it is.
    let start = part.get().as_ptr() as usize - text.as_ptr() as usize;
    let end = start + part.get().len();
    Cow::Owned([&text[..start], "null", &text[end..]].concat())
}

// === impl Head ===

impl<'de> Visitor<'de> for &mut Head<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key()? {
            match field {
                Field::Metadata => {
                    self.metadata = Some(map.next_value()?);
                    break;
                }
                Field::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

// === impl ReceivedObject ===

impl ReceivedObject {
    /// Decodes the object.
    ///
    /// # Errors
    /// If the object does not have the structure of its kind. The error has the position in the text.
    pub fn read<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(&self.text)
    }

    /// Decodes all of its metadata, and nothing else.
    ///
    /// # Errors
    /// Like [`Self::read`].
    pub fn read_metadata(&self) -> Result<ObjectMeta, serde_json::Error> {
        metadata_of(&self.text)
    }

    /// Its JSON.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for ReceivedObject {
    /// Leaves out the content, because it may be that of a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for ReceivedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'de RawValue>::deserialize(deserializer)?.get();
        let found: Outline<'_> = metadata_of(text).map_err(D::Error::custom)?;
        let text = cut(text, found.managed_fields).into();
        let metadata = ObjectMeta {
            namespace: found.namespace,
            name: found.name,
            uid: found.uid,
            resource_version: found.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, text })
    }
}

macro_rules! resource {
    ($type:ty, $metadata_only:literal, $($metadata:tt)+) => {
        impl Resource for $type {
            type DynamicType = ApiResource;
            type Scope = DynamicResourceScope;

            fn metadata_api() -> bool {
                $metadata_only
            }

            fn kind(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.kind)
            }

            fn group(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.group)
            }

            fn version(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.version)
            }

            fn api_version(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.api_version)
            }

            fn plural(resource: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&resource.plural)
            }

            fn meta(&self) -> &ObjectMeta {
                &self.$($metadata)+
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.$($metadata)+
            }
        }
    };
}

resource!(ReceivedObject, false, metadata);
resource!(MetadataOnly, true, 0.metadata);

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    fn config_map(data: &serde_json::Value) -> serde_json::Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {
                "name": "a", "namespace": "ns", "resourceVersion": "7",
                "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {".": {}, "f:k": {}}}}],
            },
        })
    }

    #[test]
    fn only_managed_fields_are_left_out() {
        let mut object = config_map(&json!({"managedFields": "a \"quoted\" one, ☃", "k": "}]"}));
        let slim: serde_json::Value =
            serde_json::from_str(&without_managed_fields(&object.to_string())).unwrap();
        object["metadata"]["managedFields"] = serde_json::Value::Null;
        assert_eq!(slim, object);
    }

    #[test]
    fn what_has_none_or_is_no_object_stays_as_it_is() {
        for text in
            [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":null}"#, "[1]", "", "{", r#"{"metadata":3}"#]
        {
            assert_eq!(without_managed_fields(text), text);
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_leaves_the_others_of_a_list_alone() {
        let list = json!({
            "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"},
            "items": [config_map(&json!({"k": "v"})), config_map(&json!("nonsense"))],
        });
        let list: ObjectList<ReceivedObject> = serde_json::from_str(&list.to_string()).unwrap();
        let read = list.items[0].read::<ConfigMap>().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["k"], "v");
        assert_eq!(read.metadata.managed_fields, None);
        assert_eq!(list.items[1].metadata.name.as_deref(), Some("a"));
        let problem = list.items[1].read::<ConfigMap>().unwrap_err().to_string();
        assert!(problem.contains("nonsense"), "{problem}");
        assert_eq!(list.items[1].meta().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn of_an_object_as_much_is_read_as_is_asked_for() {
        let object = config_map(&json!("nonsense"));
        let received: ReceivedObject = serde_json::from_str(&object.to_string()).unwrap();
        let metadata = received.read_metadata().unwrap();
        assert_eq!((metadata.name.as_deref(), metadata.managed_fields), (Some("a"), None));
        assert!(received.read::<ConfigMap>().is_err());
        for none in [r#"{"kind":"ConfigMap"}"#, r#"{"kind":"ConfigMap","metadata":null}"#] {
            let received: ReceivedObject = serde_json::from_str(none).unwrap();
            assert_eq!(received.metadata, ObjectMeta::default(), "{none}");
        }
        assert!(serde_json::from_str::<ReceivedObject>(r#"{"metadata":3}"#).is_err());
    }

    #[test]
    fn what_a_watch_says_is_read() {
        let line = format!(r#"{{"type":"MODIFIED","object":{}}}"#, config_map(&json!({"k": "hush"})));
        let event: WatchEvent<ReceivedObject> = serde_json::from_str(&line).unwrap();
        let WatchEvent::Modified(object) = event else { unreachable!("{event:?}") };
        assert_eq!(object.metadata.name.as_deref(), Some("a"));
        assert_eq!(object.read::<ConfigMap>().unwrap().data.unwrap()["k"], "hush");
        assert!(!format!("{object:?}").contains("hush"), "{object:?}");
        let line = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12"}}}"#;
        let event: WatchEvent<ReceivedObject> = serde_json::from_str(line).unwrap();
        assert!(
            matches!(event, WatchEvent::Bookmark(bookmark) if bookmark.metadata.resource_version == "12")
        );
    }
}
