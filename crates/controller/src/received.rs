//! Objects as an API server sends them: with records of who set which field, which often weigh more than all else and which
//! nobody reads here, and not always readable.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::PartialObjectMeta};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;

/// An object of a list or a watch. One that cannot be read does not make the others unreadable.
///
/// It can be read from JSON text only, and from there directly: `type` has to come before `object` in what a watch says, as it
/// does wherever Kubernetes prints it.
#[derive(Clone, Debug)]
pub(crate) struct Received<K>(pub(crate) Result<K, Unreadable>);

/// An object that is not what its kind should be.
#[derive(Clone)]
pub(crate) struct Unreadable {
    pub(crate) metadata: ObjectMeta,
    /// What is wrong, and where in the object's text.
    pub(crate) problem: String,
}

/// What is looked for in the text of an object.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    metadata: Option<OutlineOfMetadata<'a>>,
}

#[derive(Deserialize)]
struct OutlineOfMetadata<'a> {
    #[serde(borrow, rename = "managedFields")]
    managed_fields: Option<&'a RawValue>,
}

/// The text of an object with null for its managed fields; the same text, where there are none to be found.
pub(crate) fn without_managed_fields(text: &str) -> Cow<'_, str> {
    let outline = serde_json::from_str::<Outline<'_>>(text).ok();
    let Some(found) = outline.and_then(|outline| outline.metadata).and_then(|all| all.managed_fields) else {
        return Cow::Borrowed(text);
    };
    let start = found.get().as_ptr() as usize - text.as_ptr() as usize;
    let end = start + found.get().len();
    Cow::Owned([&text[..start], "null", &text[end..]].concat())
}

// === impl Received ===

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Received<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = without_managed_fields(<&'de RawValue>::deserialize(deserializer)?.get());
        let problem = match serde_json::from_str(&text) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error.to_string(),
        };
        let partial: PartialObjectMeta<K> = serde_json::from_str(&text).map_err(D::Error::custom)?;
        Ok(Self(Err(Unreadable { metadata: partial.metadata, problem })))
    }
}

impl<K: Resource> Resource for Received<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

// === impl Unreadable ===

impl fmt::Debug for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unreadable")
            .field("namespace", &self.metadata.namespace)
            .field("name", &self.metadata.name)
            .field("problem", &self.problem)
            .finish()
    }
}

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
        let list: ObjectList<Received<ConfigMap>> = serde_json::from_str(&list.to_string()).unwrap();
        let read = list.items[0].0.as_ref().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["k"], "v");
        assert_eq!(read.metadata.managed_fields, None);
        let unreadable = list.items[1].0.as_ref().unwrap_err();
        assert_eq!(unreadable.metadata.name.as_deref(), Some("a"));
        assert!(unreadable.problem.contains("nonsense"), "{unreadable:?}");
        assert_eq!(list.items[1].meta().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn what_a_watch_says_is_read() {
        let line = format!(r#"{{"type":"MODIFIED","object":{}}}"#, config_map(&json!({"k": "v"})));
        let event: WatchEvent<Received<ConfigMap>> = serde_json::from_str(&line).unwrap();
        let WatchEvent::Modified(Received(Ok(object))) = event else { unreachable!("{event:?}") };
        assert_eq!(object.metadata.name.as_deref(), Some("a"));
        let line = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12"}}}"#;
        let event: WatchEvent<Received<ConfigMap>> = serde_json::from_str(line).unwrap();
        assert!(
            matches!(event, WatchEvent::Bookmark(bookmark) if bookmark.metadata.resource_version == "12")
        );
    }
}
