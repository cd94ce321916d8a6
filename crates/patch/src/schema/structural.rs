//! Provides a CRD's structural schema as a schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use longboat_types::type_def;

use super::{Atom, FieldDeclaration, List, Map, Node, Relation, Scalar};

/// What server-side apply needs of a CRD's `openAPIV3Schema`. A tree of JSON values would take ten times the memory, most of it
/// for descriptions and limits.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StructuralFields {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: Box<str>,
    format: Option<Box<str>>,
    #[serde(deserialize_with = "sorted")]
    properties: Properties,
    items: Option<Box<Self>>,
    additional_properties: Option<AdditionalProperties>,
    default: Option<Value>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields", deserialize_with = "or_default")]
    keeps_unknown: bool,
    #[serde(rename = "x-kubernetes-embedded-resource", deserialize_with = "or_default")]
    embedded: bool,
    #[serde(rename = "x-kubernetes-map-type", deserialize_with = "or_default")]
    map_type: Box<str>,
    #[serde(rename = "x-kubernetes-list-type", deserialize_with = "or_default")]
    list_type: Box<str>,
    #[serde(rename = "x-kubernetes-list-map-keys", deserialize_with = "or_default")]
    list_map_keys: Box<[Box<str>]>,
}

/// Sorted by name. Most schemas have a few properties, for which a tree would take several times the memory.
type Properties = Box<[(Box<str>, StructuralFields)]>;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AdditionalProperties {
    Allowed(bool),
    Schema(Box<StructuralFields>),
}

/// A key without a value counts as absent.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(value: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

fn sorted<'de, D: Deserializer<'de>>(value: D) -> Result<Properties, D::Error> {
    let properties: BTreeMap<_, _> = or_default(value)?;
    Ok(properties.into_iter().collect())
}

// === impl StructuralFields ===

impl StructuralFields {
    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<&Self> {
        let found = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.properties[found].1)
    }

    /// The names of the properties, sorted.
    pub fn property_names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(|(name, _)| &**name)
    }

    /// The schema of a list's items.
    pub fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// The schema of a map's entries.
    pub fn additional(&self) -> Option<&Self> {
        match self.additional_properties.as_ref()? {
            AdditionalProperties::Allowed(_) => None,
            AdditionalProperties::Schema(schema) => Some(schema),
        }
    }

    pub(super) fn atom(&self, keeps_unknown: bool) -> Atom<'_> {
        let keeps_unknown = keeps_unknown || self.keeps_unknown;
        let map = || Map {
            atomic: &*self.map_type == "atomic",
            place: Node::Custom { schema: self, keeps_unknown },
        };
        let scalar = |scalar| Atom { scalar: Some(scalar), list: None, map: None };
        match &*self.kind {
            "object" => Atom { scalar: None, list: None, map: Some(map()) },
            "array" => Atom { scalar: None, list: Some(self.list(keeps_unknown)), map: None },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" => {
                let plain = matches!(self.format.as_deref(), None | Some("" | "byte"));
                scalar(if plain { Scalar::String } else { Scalar::Any })
            }
            "" => Atom { scalar: Some(Scalar::Any), list: Some(self.list(keeps_unknown)), map: Some(map()) },
            _ => scalar(Scalar::Any),
        }
    }

    fn list(&self, keeps_unknown: bool) -> List<'_> {
        let relation = match &*self.list_type {
            "set" => Relation::Set,
            "map" => Relation::Keys(self.list_map_keys.iter().map(|key| &**key).collect()),
            _ => Relation::Atomic,
        };
        let element = match &self.items {
            Some(items) => Node::Custom { schema: items, keeps_unknown },
            None => Node::Untyped,
        };
        List { element, relation }
    }

    /// A field of the root. Metadata, kind and apiVersion are those of every object, whatever the schema declares.
    pub(super) fn root_field(&self, name: &str) -> Option<FieldDeclaration<'_>> {
        match name {
            "metadata" | "apiVersion" | "kind" => object_field(name),
            _ => self.field(self.keeps_unknown, name),
        }
    }

    pub(super) fn field(&self, keeps_unknown: bool, name: &str) -> Option<FieldDeclaration<'_>> {
        if self.embedded
            && let "metadata" | "apiVersion" | "kind" = name
        {
            return object_field(name);
        }
        let schema = self.property(name)?;
        Some(FieldDeclaration {
            node: Node::Custom { schema, keeps_unknown },
            default: schema.default.as_ref(),
        })
    }

    pub(super) fn entries(&self, keeps_unknown: bool) -> Option<Node<'_>> {
        let keeps_unknown = keeps_unknown || self.keeps_unknown;
        match &self.additional_properties {
            None => (keeps_unknown || !self.has_properties()).then_some(Node::Deduced),
            Some(AdditionalProperties::Allowed(allowed)) => allowed.then_some(Node::Deduced),
            Some(AdditionalProperties::Schema(schema)) => Some(Node::Custom { schema, keeps_unknown }),
        }
    }

    pub(super) fn has_properties(&self) -> bool {
        self.embedded || !self.properties.is_empty()
    }
}

/// A field that every object has.
fn object_field<'a>(name: &str) -> Option<FieldDeclaration<'a>> {
    match name {
        "metadata" => type_def("meta.v1.ObjectMeta")
            .map(|def| FieldDeclaration { node: Node::Type(def), default: None }),
        _ => type_def("meta.v1.TypeMeta")?
            .field(name)
            .map(|field| FieldDeclaration { node: Node::Shape(&field.shape), default: None }),
    }
}
