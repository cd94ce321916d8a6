//! Values as a Go program would see them: JSON data together with its Go type.
//!
//! A template distinguishes a nil pointer, a zero value and a missing map entry, and its errors have Go's names of types and
//! fields. So data is read through a description of the Go types.

use std::{borrow::Cow, fmt, sync::OnceLock};

use longboat_types::go::Omit;
use serde_json::Value as Json;

use crate::method::Method;

/// A Go struct type.
#[derive(Debug)]
pub struct Struct {
    /// The name in Go, `v1.PodSpec`.
    pub name: &'static str,
    /// The exported methods of a pointer to the struct.
    pub methods: &'static [Method],
    fields: OnceLock<Vec<Field>>,
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    /// The JSON key. It is empty for an inlined struct, whose fields are on the same level as the others.
    pub json: &'static str,
    /// The Go name, which templates use.
    pub go: &'static str,
    /// Its type.
    pub ty: Ty,
    /// When Go's encoder omits the field.
    pub omit: Omit,
    /// Whether it is an embedded struct, whose fields can be used like those of the outer struct.
    pub embedded: bool,
}

/// A Go type. The strings are the names in Go. A list or map without a name has `""`.
#[derive(Debug, Clone, Copy)]
pub enum Ty {
    /// A boolean.
    Bool(&'static str),
    /// A string.
    Str(&'static str),
    /// A signed or unsigned integer.
    Int(&'static str),
    /// A float.
    Float(&'static str),
    /// A struct.
    Struct(&'static Struct),
    /// A pointer.
    Ptr(&'static Self),
    /// A slice.
    Slice(&'static str, &'static Self),
    /// A map with string keys.
    Map(&'static str, &'static Self),
    /// `resource.Quantity`, a string or number in JSON.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `v1.Time`.
    Time,
    /// `apis.URL`.
    Url,
    /// `runtime.RawExtension`: any JSON.
    Raw,
    /// `interface {}`: any JSON, with the type of its content.
    Any,
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Struct(s) => f.write_str(s.name),
            Self::Ptr(inner) => write!(f, "*{inner}"),
            Self::Slice("", inner) => write!(f, "[]{inner}"),
            Self::Map("", inner) => write!(f, "map[string]{inner}"),
            Self::Bool(name)
            | Self::Str(name)
            | Self::Int(name)
            | Self::Float(name)
            | Self::Slice(name, _)
            | Self::Map(name, _) => f.write_str(name),
            Self::Quantity => f.write_str("resource.Quantity"),
            Self::IntOrString => f.write_str("intstr.IntOrString"),
            Self::Time => f.write_str("v1.Time"),
            Self::Url => f.write_str("apis.URL"),
            Self::Raw => f.write_str("runtime.RawExtension"),
            Self::Any => f.write_str("interface {}"),
        }
    }
}

// === impl Struct ===

impl Struct {
    /// A struct whose fields are [declared](Self::declare) later, because they may lead to the struct itself.
    pub const fn new(name: &'static str, methods: &'static [Method]) -> Self {
        Self { name, methods, fields: OnceLock::new() }
    }

    /// Declares the fields. Only the first call has an effect.
    pub fn declare(&self, fields: impl IntoIterator<Item = Field>) {
        // The list is complete before it is stored, because making it may declare other structs.
        let _ = self.fields.set(fields.into_iter().collect());
    }

    /// The fields in the order of the Go declaration, which is also the order of Go's JSON.
    pub fn fields(&self) -> &[Field] {
        self.fields.get().map(Vec::as_slice).unwrap_or_default()
    }
}

/// A value in an evaluation.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// No value: an untyped nil, or the result for a missing entry.
    Invalid,
    /// Data with a Go type. `None` is the type's zero value. The type is never [`Ty::Any`]: see [`Value::typed`].
    Typed(Ty, Option<&'a Json>),
    /// A `string`.
    Str(Cow<'a, str>),
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `float64`.
    Float(f64),
}

/// The kinds of types that evaluation distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    Bool,
    Int,
    Float,
    Str,
    Struct,
    Ptr,
    Slice,
    Map,
}

static ANY: Ty = Ty::Any;

impl<'a> Value<'a> {
    /// Returns `json` as the Go type `ty`. `null` and `None` are the zero value.
    pub fn typed(ty: Ty, json: Option<&'a Json>) -> Self {
        let json = json.filter(|j| !j.is_null());
        if !matches!(ty, Ty::Any) {
            return Value::Typed(ty, json);
        }
        match json {
            None | Some(Json::Null) => Value::Invalid,
            Some(Json::Bool(b)) => Value::Bool(*b),
            Some(Json::String(s)) => Value::Str(Cow::Borrowed(s)),
            // Kubernetes decodes whole numbers to int64.
            Some(Json::Number(n)) if n.is_i64() => Value::Typed(Ty::Int("int64"), json),
            Some(Json::Number(n)) => Value::Float(n.as_f64().unwrap_or_default()),
            Some(Json::Array(_)) => Value::Typed(Ty::Slice("", &ANY), json),
            Some(Json::Object(_)) => Value::Typed(Ty::Map("", &ANY), json),
        }
    }

    /// Returns data without types, as Go decodes it into `interface{}`.
    pub fn any(json: &'a Json) -> Self {
        Self::typed(Ty::Any, Some(json))
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Invalid => Kind::Invalid,
            Self::Str(_) => Kind::Str,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Int,
            Self::Float(_) => Kind::Float,
            Self::Typed(ty, _) => match ty {
                Ty::Bool(_) => Kind::Bool,
                Ty::Str(_) => Kind::Str,
                Ty::Int(_) => Kind::Int,
                Ty::Float(_) => Kind::Float,
                Ty::Ptr(_) => Kind::Ptr,
                Ty::Slice(..) => Kind::Slice,
                Ty::Map(..) => Kind::Map,
                Ty::Struct(_) | Ty::Quantity | Ty::IntOrString | Ty::Time | Ty::Url | Ty::Raw | Ty::Any => {
                    Kind::Struct
                }
            },
        }
    }

    /// The name of the type in Go.
    pub fn type_name(&self) -> String {
        match self {
            Self::Invalid => "<nil>".to_owned(),
            Self::Typed(ty, _) => ty.to_string(),
            Self::Str(_) => "string".to_owned(),
            Self::Bool(_) => "bool".to_owned(),
            Self::Int(_) => "int".to_owned(),
            Self::Float(_) => "float64".to_owned(),
        }
    }

    /// Whether the value is a nil pointer or no value.
    pub fn is_nil(&self) -> bool {
        match self {
            Self::Invalid => true,
            Self::Typed(Ty::Ptr(_) | Ty::Slice(..) | Ty::Map(..), json) => json.is_none(),
            _ => false,
        }
    }

    /// Dereferences pointers. A nil pointer is returned as it is, with the flag set.
    pub(crate) fn indirect(self) -> (Self, bool) {
        let mut value = self;
        while let Self::Typed(Ty::Ptr(inner), json) = value {
            if json.is_none() {
                return (value, true);
            }
            value = Self::typed(*inner, json);
        }
        (value, false)
    }

    /// Whether Go treats the value as true: it is not the zero value, and if it is a pointer, not nil.
    pub(crate) fn is_true(&self) -> bool {
        match self.kind() {
            Kind::Invalid => false,
            Kind::Bool => self.as_bool(),
            Kind::Int => self.as_int() != 0,
            Kind::Float => self.as_float() != 0.0,
            Kind::Str => !self.as_str().is_empty(),
            Kind::Struct => true,
            Kind::Ptr => !self.is_nil(),
            Kind::Slice => !self.elements().is_empty(),
            Kind::Map => !self.entries().is_empty(),
        }
    }

    pub(crate) fn as_bool(&self) -> bool {
        match self {
            Self::Bool(b) => *b,
            Self::Typed(_, json) => json.and_then(Json::as_bool).unwrap_or_default(),
            _ => false,
        }
    }

    pub(crate) fn as_int(&self) -> i64 {
        match self {
            Self::Int(i) => *i,
            Self::Typed(_, json) => json.and_then(Json::as_i64).unwrap_or_default(),
            _ => 0,
        }
    }

    pub(crate) fn as_float(&self) -> f64 {
        match self {
            Self::Float(v) => *v,
            Self::Typed(_, json) => json.and_then(Json::as_f64).unwrap_or_default(),
            _ => 0.0,
        }
    }

    /// The text of a string; empty for anything else.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Str(s) => s,
            Self::Typed(_, json) => json.and_then(Json::as_str).unwrap_or_default(),
            _ => "",
        }
    }

    /// The elements of a list.
    pub(crate) fn elements(&self) -> &'a [Json] {
        match self {
            Self::Typed(Ty::Slice(..), Some(Json::Array(items))) => items,
            _ => &[],
        }
    }

    /// The type of a list's or map's elements.
    pub(crate) fn element_type(&self) -> Ty {
        match self {
            Self::Typed(Ty::Slice(_, inner) | Ty::Map(_, inner), _) => **inner,
            _ => Ty::Any,
        }
    }

    /// The entries of a map, by key.
    pub(crate) fn entries(&self) -> Vec<(&'a str, &'a Json)> {
        match self {
            Self::Typed(Ty::Map(..), Some(Json::Object(map))) => {
                let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.as_str(), v)).collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                entries
            }
            _ => Vec::new(),
        }
    }

    /// The number of entries of a map; 0 for everything else.
    pub(crate) fn len_of_map(&self) -> usize {
        match self {
            Self::Typed(Ty::Map(..), Some(Json::Object(map))) => map.len(),
            _ => 0,
        }
    }

    /// A map's entry.
    pub(crate) fn entry(&self, key: &str) -> Option<Self> {
        match self {
            Self::Typed(Ty::Map(_, inner), Some(Json::Object(map))) => {
                map.get(key).map(|json| Self::typed(**inner, Some(json)))
            }
            _ => None,
        }
    }

    /// Returns the field `name` of the struct type `s` in `json`. It may be in an embedded struct.
    ///
    /// Returns `Some(Err(name))` if the path to it leads through a nil embedded pointer to the struct `name`.
    pub(crate) fn field(
        s: &'static Struct,
        json: Option<&'a Json>,
        name: &str,
    ) -> Option<Result<Self, String>> {
        let pick = |field: &'static Field| {
            if field.json.is_empty() { json } else { json.and_then(|j| j.get(field.json)) }
        };
        if let Some(field) = s.fields().iter().find(|f| f.go == name) {
            return Some(Ok(Self::typed(field.ty, pick(field))));
        }
        for field in s.fields().iter().filter(|f| f.embedded) {
            let (inner, nil) = match field.ty {
                Ty::Struct(inner) => (inner, false),
                Ty::Ptr(Ty::Struct(inner)) => (*inner, pick(field).is_none()),
                _ => continue,
            };
            match Self::field(inner, pick(field), name) {
                Some(_) if nil => return Some(Err(inner.name.to_owned())),
                None => {}
                found => return found,
            }
        }
        None
    }

    /// Whether the struct type `s` has a field `name`.
    pub(crate) fn has_field(s: &'static Struct, name: &str) -> bool {
        Self::field(s, None, name).is_some()
    }
}

/// Returns a field of a type that has no description as a struct, because its JSON is a scalar.
pub(crate) fn scalar_field<'a>(ty: Ty, json: Option<&'a Json>, name: &str) -> Option<Value<'a>> {
    let text = json.and_then(Json::as_str).unwrap_or_default();
    if !matches!(ty, Ty::Url) {
        return None;
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let (host, path, opaque) = match rest.strip_prefix("//") {
        Some(authority) => {
            let slash = authority.find('/').unwrap_or(authority.len());
            (&authority[..slash], &authority[slash..], "")
        }
        None if !scheme.is_empty() && !rest.starts_with('/') => ("", "", rest),
        None => ("", rest, ""),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Some(match name {
        "Scheme" => Value::Str(scheme.into()),
        "Opaque" => Value::Str(opaque.into()),
        "Host" => Value::Str(host.into()),
        "Path" => Value::Str(percent_decoded(path).into_owned().into()),
        "RawPath" => Value::Str("".into()),
        "RawQuery" => Value::Str(query.into()),
        "Fragment" => Value::Str(percent_decoded(fragment).into_owned().into()),
        _ => return None,
    })
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy()
}
