//! The versions of a kind that a write involves, for field ownership.

use std::sync::Arc;

use longboat_patch::{managed::Versions, schema::Node};
use longboat_types::{TypeDef, type_of_kind};
use serde_json::Value;

use crate::kinds::{Convert, Registry, Resource, views};

/// The versions that a write involves: the version of the request, and the versions that `managedFields` of the objects
/// name.
#[derive(Debug)]
pub(super) struct Kinds {
    versions: Vec<(String, Arc<Resource>, Option<&'static TypeDef>)>,
    in_process: Option<Convert>,
}

impl Kinds {
    /// Collects the served versions that the `managedFields` of these objects name.
    pub(super) fn of(registry: &Registry, resource: &Resource, objects: &[&Value]) -> Self {
        let requested = resource.api_version();
        let in_process = registry.conversion_of(&resource.group);
        let mut kinds = Self { versions: Vec::new(), in_process };
        kinds.add(requested, Arc::new(resource.clone()));
        let entries =
            objects.iter().filter_map(|object| object["metadata"]["managedFields"].as_array()).flatten();
        for api_version in entries.filter_map(|entry| entry["apiVersion"].as_str()) {
            if kinds.find(api_version).is_none()
                && let Some(found) = registry.find_kind(api_version, &resource.kind)
                && found.table == resource.table
            {
                kinds.add(api_version.to_owned(), found);
            }
        }
        kinds
    }

    fn add(&mut self, api_version: String, resource: Arc<Resource>) {
        let def = match resource.custom() {
            Some(_) => None,
            None => type_of_kind(&api_version, &resource.kind),
        };
        self.versions.push((api_version, resource, def));
    }

    fn find(&self, api_version: &str) -> Option<&(String, Arc<Resource>, Option<&'static TypeDef>)> {
        self.versions.iter().find(|(name, ..)| name == api_version)
    }
}

impl Versions for Kinds {
    fn schema(&self, api_version: &str) -> Option<Node<'_>> {
        let (_, resource, def) = self.find(api_version)?;
        match (resource.custom(), def) {
            (Some(custom), _) => Some(Node::CustomRoot { schema: custom.schema.root() }),
            (None, Some(def)) => Some(Node::Type(def)),
            (None, None) => Some(Node::Deduced),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let from = object["apiVersion"].as_str().unwrap_or_default();
        let (Some((_, from, _)), Some((_, to, _))) = (self.find(from), self.find(api_version)) else {
            return Err(format!("no conversion to {api_version}"));
        };
        let Some(custom) = to.custom() else {
            return Ok(views::from_hub(to, &views::to_hub(from, object.clone())));
        };
        let mut object = object.clone();
        if let Some(convert) = self.in_process {
            if object["apiVersion"] != api_version {
                convert(&mut object, api_version)?;
                custom.schema.prune(&mut object);
            }
            return Ok(object);
        }
        object["apiVersion"] = Value::from(api_version);
        if custom.webhook.is_some() {
            // A call to the conversion webhook here would delay every write. The versions of a kind mostly have the same
            // field names. Nobody owns a field that the other version does not have.
            custom.schema.prune(&mut object);
        }
        Ok(object)
    }
}
