//! The table of Kubernetes types, with one line per field. Strategic merge, server-side apply and the CRD schemas use it.
//!
//! The data files have one block per type. The block starts with `@name`, followed by `!` if the whole struct is atomic, and
//! by ` ?` if fields that are not listed are allowed and untyped. Then comes one line per field: JSON name, protobuf number
//! (0 for none), shape, options. The name `*` marks a type whose fields are embedded.
//!
//! | shape | meaning |
//! |---|---|
//! | `s i f b y` | string, integer, float, boolean, bytes (base64 in JSON) |
//! | `q t T x` | quantity, time, time with microseconds, integer or string |
//! | `r j F` | raw embedded object, any JSON, a field set |
//! | `group.Type` | a struct; with `!` behind it, atomic here |
//! | `[]T`, `[=]T`, `[a,b]T` | atomic list, set, list keyed by `a` and `b` |
//! | `{}T`, `{!}T` | map, atomic map |
//!
//! | option | meaning |
//! |---|---|
//! | `~key`, `~` | strategic merge merges this list by `key`, or as a set of scalars |
//! | `+` | strategic merge honours `$retainKeys` (before `~` where both are) |
//! | `-` | strategic merge replaces the struct instead of merging it |
//! | `.`, `.n` | always there in the serialised form, as zero value, or as null |
//! | `*` | a scalar whose zero value differs from an absent one (a pointer in Go) |
//! | `=json` | default of a field that serves as a key |

mod kinds;
mod markers;
mod parse;

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

pub use kinds::type_of_kind;
pub use markers::{Markers, field_markers, type_markers};

static TABLE: LazyLock<HashMap<&'static str, TypeDef>> =
    LazyLock::new(|| parse::parse(&[include_str!("kubernetes.txt"), include_str!("kserve.txt")]));

/// The definition of a struct type.
#[derive(Debug)]
pub struct TypeDef {
    /// Name in the table, such as `core.v1.Container`.
    pub name: &'static str,
    /// Whether server-side apply treats the struct as one value.
    pub atomic: bool,
    /// Whether fields that are not listed are allowed; they are untyped.
    pub open: bool,
    /// Its fields in declaration order, including those of embedded structs.
    pub fields: Vec<Field>,
    /// Embedded structs with their protobuf numbers.
    pub embedded: Vec<(u32, &'static str)>,
    index: HashMap<&'static str, usize>,
}

/// The definition of a field.
#[derive(Debug, Clone)]
pub struct Field {
    /// Name in JSON.
    pub name: &'static str,
    /// Protobuf number in the struct that declares it; 0 for none.
    pub number: u32,
    /// Whether an embedded struct declares it.
    pub embedded: bool,
    /// The type of its value.
    pub shape: Shape,
    /// How strategic merge handles it.
    pub patch: Strategy,
    /// What Go writes for it if it is not set.
    pub presence: Presence,
    /// Whether zero differs from an absent value, for a scalar.
    pub optional: bool,
    /// The default value of the field if it is a list key that was omitted.
    pub default: Option<Value>,
}

/// The type of a field's value.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A string.
    String,
    /// An integer of any width.
    Integer,
    /// A float.
    Float,
    /// A boolean.
    Boolean,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A resource quantity.
    Quantity,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// An integer or a string.
    IntOrString,
    /// An embedded object of any type.
    Raw,
    /// Any JSON.
    Json,
    /// A serialised field set.
    FieldSet,
    /// A struct. The field may make it atomic, whatever the struct's definition is.
    Message {
        /// Name in the table.
        name: &'static str,
        /// Whether this field makes it atomic.
        atomic: bool,
    },
    /// A list.
    List {
        /// The type of its elements.
        element: Box<Self>,
        /// How server-side apply merges it.
        kind: ListKind,
    },
    /// A map with string keys.
    Map {
        /// The type of its values.
        value: Box<Self>,
        /// Whether server-side apply treats it as one value.
        atomic: bool,
    },
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// As one value.
    Atomic,
    /// Element by element.
    Set,
    /// By these keys of its elements.
    Map(Vec<&'static str>),
}

/// How strategic merge handles a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Lists only: whether they merge instead of being replaced.
    pub merge: bool,
    /// The key by which elements are matched; empty for scalars.
    pub key: &'static str,
    /// Whether a computed patch names the keys to retain.
    pub retain_keys: bool,
    /// Structs only: whether they are replaced instead of merging.
    pub replace: bool,
}

/// What Go writes for a field that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nothing: the field is omitted.
    Omitted,
    /// The zero value: `{}`, `""`, `0`, `false`, or null for lists and maps.
    Zero,
    /// Null.
    Null,
}

impl TypeDef {
    /// The field of this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.index.get(name).map(|&at| &self.fields[at])
    }

    /// The name without its group, as error texts of Kubernetes name the type.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// Returns the type of this name: `core.v1.Container`, or in the form of OpenAPI, `io.k8s.api.core.v1.Container`.
pub fn type_def(name: &str) -> Option<&'static TypeDef> {
    TABLE.get(short(name))
}

/// The names of all types in the table, in no particular order.
pub fn type_names() -> impl Iterator<Item = &'static str> {
    TABLE.keys().copied()
}

fn short(name: &str) -> &str {
    for prefix in ["io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis."]
    {
        if let Some(rest) = name.strip_prefix(prefix) {
            return rest;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_type_is_in_the_table() {
        fn check(owner: &str, field: &str, shape: &Shape) {
            match shape {
                Shape::Message { name, .. } => {
                    assert!(type_def(name).is_some(), "{owner}.{field} names {name}");
                }
                Shape::List { element, kind } => {
                    check(owner, field, element);
                    if let (ListKind::Map(keys), Shape::Message { name, .. }) = (kind, element.as_ref()) {
                        for key in keys {
                            assert!(
                                type_def(name).unwrap().field(key).is_some(),
                                "{owner}.{field}: key {key}"
                            );
                        }
                    }
                }
                Shape::Map { value, .. } => check(owner, field, value),
                _ => {}
            }
        }
        for name in type_names() {
            for field in &type_def(name).unwrap().fields {
                check(name, field.name, &field.shape);
            }
        }
    }

    #[test]
    fn ports_merge_by_one_key_and_are_owned_by_two() {
        let ports = type_def("io.k8s.api.core.v1.Container").unwrap().field("ports").unwrap();
        assert_eq!(ports.patch.key, "containerPort");
        let Shape::List { kind, .. } = &ports.shape else { panic!("a list") };
        assert_eq!(*kind, ListKind::Map(vec!["containerPort", "protocol"]));
    }

    #[test]
    fn embedded_structs_lend_their_fields() {
        let probe = type_def("core.v1.Probe").unwrap();
        assert!(probe.field("httpGet").unwrap().embedded);
        assert!(!probe.field("periodSeconds").unwrap().embedded);
    }
}
