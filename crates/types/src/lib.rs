//! The table of Kubernetes types, with one line per field. Strategic merge, server-side apply, the CRD schemas, the Go types
//! that templates see, the defaults and the comparison of objects come from it.
//!
//! The data files have one block per type. The block starts with `@name`, followed by `!` if the whole struct is atomic. Then
//! comes one line per field, in the order of the Go declaration: JSON name, protobuf number (0 for none), shape, options.
//! The name `*` marks a type whose fields are embedded.
//!
//! | shape | meaning |
//! |---|---|
//! | `s i l f b y` | string, `int32`, `int64`, float, boolean, bytes (base64 in JSON) |
//! | `q t T x u` | quantity, time, time with microseconds, integer or string, URL |
//! | `r j F S` | raw embedded object, any JSON, a field set, a JSON schema or what may stand for one |
//! | `group.version.Type` | a struct; with `!` behind it, atomic here |
//! | `[]T`, `[=]T`, `[a,b]T` | atomic list, set, list keyed by `a` and `b` |
//! | `{}T`, `{!}T` | map, atomic map |
//! | `T:Name` | the Go type has a name: that of the scalar, or else that of the list or map ([`Field::go_type`]) |
//!
//! | option | meaning |
//! |---|---|
//! | `~key`, `~` | strategic merge merges this list by `key`, or as a set of scalars |
//! | `+` | strategic merge honours `$retainKeys` (before `~` where both are) |
//! | `-` | strategic merge replaces the struct instead of merging it |
//! | `.`, `.n` | always there in the serialised form, as zero value, or as null |
//! | `0` | a struct that is not a pointer, but is omitted if it is zero |
//! | `*` | a pointer in Go, so a zero value differs from an absent one. Structs without `.` and `0` always are |
//! | `>Name` | the Go name, if it does not follow from the JSON name ([`go::name`]) |
//! | `=json` | default in the schema: the API server fills it in wherever the type is embedded, in CRDs too |
//! | `:json` | default that the API server fills into built-in kinds only |
//! | `:@rule` | like `:json`, and computed from the object by the rule of this name |
//!
//! A default stands for a missing value, and for the zero value unless the field is a pointer.

pub mod float;
pub mod go;
mod kinds;
mod markers;
mod parse;
pub mod quote;

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

/// The minor version of [`KUBERNETES_VERSION`].
pub const KUBERNETES_MINOR: u8 = 34;
/// The release of Kubernetes that the table describes, and whose behaviour the embedded API server and the node have.
pub const KUBERNETES_VERSION: &str = "v1.34.4";

use serde_json::Value;

pub use kinds::{type_of_kind, type_of_object};
pub use markers::{MAP_TYPE, field_markers, type_markers};

/// The annotation with what `kubectl apply` has applied, as JSON: it has the whole object again.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

static TABLE: LazyLock<HashMap<&'static str, TypeDef>> = LazyLock::new(|| parse::parse(&SOURCES).0);

/// The data files, and whether they have the types of built-in kinds.
const SOURCES: [(&str, bool); 3] = [
    (include_str!("kubernetes.txt"), true),
    (include_str!("foreign.txt"), false),
    (include_str!("kserve.txt"), false),
];

/// The definition of a struct type.
#[derive(Debug)]
pub struct TypeDef {
    /// Name in the table, such as `core.v1.Container`.
    pub name: &'static str,
    /// Whether server-side apply treats the struct as one value.
    pub atomic: bool,
    /// Whether built-in kinds use it, so that it is a Go type of the API server. Others are parts of custom resources.
    pub built_in: bool,
    /// Its fields in declaration order, including those of embedded structs.
    pub fields: Vec<Field>,
    /// What it declares itself, in this order.
    members: Vec<Member>,
    index: HashMap<&'static str, usize>,
}

/// What a struct declares.
#[derive(Debug)]
enum Member {
    /// The field at this index of [`TypeDef::fields`].
    Field(usize),
    /// An embedded struct with its protobuf number.
    Embedded(u32, &'static str),
}

/// The definition of a field.
#[derive(Debug, Clone)]
pub struct Field {
    /// Name in JSON.
    pub name: &'static str,
    /// Name in Go.
    pub go: Cow<'static, str>,
    /// Protobuf number in the struct that declares it; 0 for none.
    pub number: u32,
    /// Whether an embedded struct declares it.
    pub embedded: bool,
    /// The type of its value.
    pub shape: Shape,
    /// The name of its Go type, if the type has one beside that of its shape.
    type_name: Option<Cow<'static, str>>,
    /// How strategic merge handles it.
    pub patch: Strategy,
    /// What Go writes for it if it is not set.
    pub presence: Presence,
    /// Whether it is a pointer in Go, so that a zero value differs from an absent one.
    pub pointer: bool,
    /// Whether it is a struct that Go omits if it is zero.
    pub omits_zero: bool,
    /// What stands for a missing value.
    pub default: Option<DefaultValue>,
    /// The value of the field if it is a list key that was omitted.
    pub key_default: Option<Value>,
}

/// What stands for a missing value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultValue {
    /// A part of the schema, for CRDs too.
    Schema(Value),
    /// The API server fills it into built-in kinds.
    Server(Value),
    /// The API server computes it for built-in kinds, by the rule of this name.
    Computed(&'static str),
}

/// The type of a field's value.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A string.
    String,
    /// An integer of 32 bits, or of the size that its type's name says.
    Int32,
    /// An integer of 64 bits.
    Int64,
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
    /// A URL, which Go parses.
    Url,
    /// An embedded object of any type.
    Raw,
    /// Any JSON.
    Json,
    /// A serialised field set.
    FieldSet,
    /// A JSON schema, or a list or a boolean that may stand in its place.
    Schema,
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

    /// The field in which the place at a JSON pointer is, and the type of that place.
    pub fn place(&self, pointer: &str) -> Option<(&Field, &Shape)> {
        let mut steps = pointer.split('/').skip(1);
        let mut field = self.field(steps.next()?)?;
        let mut shape = &field.shape;
        for step in steps {
            shape = match shape {
                Shape::Message { name, .. } => {
                    field = type_def(name)?.field(step)?;
                    &field.shape
                }
                Shape::List { element: inner, .. } | Shape::Map { value: inner, .. } => inner,
                _ => return None,
            };
        }
        Some((field, shape))
    }

    /// Embedded structs with their protobuf numbers.
    pub fn embedded(&self) -> impl Iterator<Item = (u32, &'static str)> {
        self.members.iter().filter_map(|member| match member {
            Member::Embedded(number, name) => Some((*number, *name)),
            Member::Field(_) => None,
        })
    }

    /// The name without its group, as error texts of Kubernetes name the type.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Shape {
    /// The zero value as Go writes it.
    pub fn zero(&self) -> Value {
        match self {
            Self::String | Self::Url => "".into(),
            Self::Int32 | Self::Int64 | Self::Float | Self::IntOrString => 0.into(),
            Self::Boolean => false.into(),
            Self::Quantity => "0".into(),
            Self::Message { .. } => Value::Object(serde_json::Map::new()),
            _ => Value::Null,
        }
    }

    /// The type of the innermost elements of a list or map, or else the type itself.
    pub fn leaf(&self) -> &Self {
        match self {
            Self::List { element: inner, .. } | Self::Map { value: inner, .. } => inner.leaf(),
            _ => self,
        }
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
    let prefixes =
        ["io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis."];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
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
        let port = type_def("core.v1.ContainerPort").unwrap();
        assert_eq!(port.field("protocol").unwrap().key_default, Some("TCP".into()));
        assert_eq!(port.field("containerPort").unwrap().key_default, Some(0.into()));
        assert_eq!(port.field("name").unwrap().key_default, None);
    }

    #[test]
    fn a_place_has_the_type_of_its_field() {
        let pod = type_def("core.v1.Pod").unwrap();
        let place = |pointer| pod.place(pointer).map(|(field, shape)| (field.name, format!("{shape:?}")));
        let found = |name, shape: &str| Some((name, shape.to_owned()));
        assert_eq!(place("/spec/containers/0/resources/limits/cpu"), found("limits", "Quantity"));
        assert_eq!(place("/spec/containers/0/args/1"), found("args", "String"));
        assert_eq!(place("/spec/priority"), found("priority", "Int32"));
        assert_eq!(place("/spec/nothing"), None);
        assert_eq!(place("/spec/priority/0"), None);
        assert_eq!(place(""), None);
    }

    #[test]
    fn embedded_structs_lend_their_fields() {
        let probe = type_def("core.v1.Probe").unwrap();
        assert!(probe.field("httpGet").unwrap().embedded);
        assert!(!probe.field("periodSeconds").unwrap().embedded);
        assert_eq!(probe.embedded().collect::<Vec<_>>(), [(1, "core.v1.ProbeHandler")]);
    }
}
