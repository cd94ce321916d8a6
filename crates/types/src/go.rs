//! The types as Go declares them. Templates see them, and errors name them.

use std::{borrow::Cow, fmt};

use super::{Field, Member, Presence, Shape, TypeDef, type_def};

/// Words that are all capitals at the start of a Go name.
const INITIALISMS: [&str; 39] = [
    "api", "aws", "ca", "cel", "cidr", "cors", "cpu", "csi", "dns", "fc", "fs", "gce", "gid", "gmsa", "grpc",
    "hpa", "http", "id", "ip", "iqn", "iscsi", "json", "keda", "kv", "nfs", "os", "pvc", "qos", "rbd", "se",
    "ssl", "tcp", "tls", "ttl", "tty", "uid", "uri", "url", "wva",
];

/// A field as Go declares it, or an embedded struct.
#[derive(Debug, PartialEq)]
pub struct GoField {
    /// The JSON key. It is empty for an embedded struct whose fields are on the same level as the others.
    pub json: &'static str,
    /// The Go name.
    pub name: Cow<'static, str>,
    /// The Go type.
    pub ty: GoType,
    /// When Go's encoder omits the field.
    pub omit: Omit,
    /// Whether it is an embedded struct.
    pub embedded: bool,
}

/// When Go's encoder omits a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omit {
    /// Never: a zero value is written.
    Never,
    /// `omitempty`: false, 0, "", nil, and empty lists and maps are omitted. Structs are not.
    Empty,
    /// `omitzero`: like `omitempty`, and a struct with only zero values is omitted too.
    Zero,
}

/// A Go type. The texts are names of Go; a list or map without a name has `""`.
#[derive(Debug, Clone, PartialEq)]
pub enum GoType {
    /// A boolean.
    Bool(Cow<'static, str>),
    /// A string.
    String(Cow<'static, str>),
    /// An integer.
    Integer(Cow<'static, str>),
    /// A float.
    Float(Cow<'static, str>),
    /// Bytes.
    Bytes,
    /// A struct, by its name in the table.
    Struct(&'static str),
    /// A pointer.
    Pointer(Box<Self>),
    /// A slice.
    Slice(Cow<'static, str>, Box<Self>),
    /// A map with string keys.
    Map(Cow<'static, str>, Box<Self>),
    /// `resource.Quantity`.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `v1.Time`.
    Time,
    /// `v1.MicroTime`.
    MicroTime,
    /// `apis.URL`.
    Url,
    /// `runtime.RawExtension`, or another type whose JSON may be anything.
    Raw,
}

/// The Go name of a field, unless the table says another one: the JSON name with a capital first letter. If the name starts
/// with an initialism, all letters of the initialism are capitals.
pub fn name(json: &'static str) -> Cow<'static, str> {
    let word = json.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(json.len());
    let capitals = if INITIALISMS.contains(&&json[..word]) { word } else { word.min(1) };
    Cow::Owned(json[..capitals].to_ascii_uppercase() + &json[capitals..])
}

/// The Go name of a type as the table writes it: it lacks the package if this is the package of the struct `owner`.
pub(crate) fn qualified(name: &'static str, owner: &str) -> Cow<'static, str> {
    if name.contains('.') || name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Cow::Borrowed(name);
    }
    let package = owner.rsplit('.').nth(1).unwrap_or_default();
    Cow::Owned(format!("{package}.{name}"))
}

impl TypeDef {
    /// The name of the type in Go: `v1.PodSpec`.
    pub fn go_name(&self) -> &'static str {
        // The table's name is group, version and type. Go's package has the name of the version.
        self.name.split_once('.').map_or(self.name, |(_, rest)| rest)
    }

    /// The fields as Go declares them, in the order of the declaration. The fields of an embedded struct are not among them,
    /// but the struct itself is. The test `declarations_are_those_of_go` shows examples.
    pub fn go_fields(&self) -> impl Iterator<Item = GoField> {
        self.members.iter().map(|member| match member {
            Member::Embedded(_, name) => GoField {
                json: "",
                name: Cow::Borrowed(type_def(name).map_or(name, Self::short_name)),
                ty: GoType::Struct(name),
                omit: Omit::Empty,
                embedded: true,
            },
            Member::Field(at) => {
                let field = &self.fields[*at];
                GoField {
                    json: field.name,
                    name: field.go.clone(),
                    ty: field.go_type(),
                    omit: match field.presence {
                        _ if field.omits_zero => Omit::Zero,
                        Presence::Omitted => Omit::Empty,
                        Presence::Zero | Presence::Null => Omit::Never,
                    },
                    embedded: field.name == "metadata" && field.go.ends_with("Meta"),
                }
            }
        })
    }
}

impl Field {
    /// The type of the field in Go.
    pub fn go_type(&self) -> GoType {
        let ty = self.go_type_of(&self.shape);
        if self.pointer { GoType::Pointer(Box::new(ty)) } else { ty }
    }

    /// The type of a part of the field in Go, such as the elements of a list. The name that the table has for the field belongs
    /// to the innermost scalar, or else to the whole list or map.
    pub fn go_type_of(&self, shape: &Shape) -> GoType {
        let name = |plain| self.type_name.clone().unwrap_or(Cow::Borrowed(plain));
        // A list within a list is another type, without the name.
        let container = || match (std::ptr::eq(shape, &raw const self.shape), shape.leaf()) {
            (true, leaf) if !leaf.is_scalar() => name(""),
            _ => Cow::Borrowed(""),
        };
        match shape {
            Shape::String => GoType::String(name("string")),
            Shape::Int32 => GoType::Integer(name("int32")),
            Shape::Int64 => GoType::Integer(name("int64")),
            Shape::Float => GoType::Float(name("float64")),
            Shape::Boolean => GoType::Bool(name("bool")),
            Shape::Bytes => GoType::Bytes,
            Shape::Quantity => GoType::Quantity,
            Shape::Time => GoType::Time,
            Shape::MicroTime => GoType::MicroTime,
            Shape::IntOrString => GoType::IntOrString,
            Shape::Url => GoType::Url,
            Shape::Raw | Shape::Json | Shape::FieldSet | Shape::Schema => GoType::Raw,
            Shape::Message { name, .. } => GoType::Struct(name),
            Shape::List { element, .. } => GoType::Slice(container(), Box::new(self.go_type_of(element))),
            Shape::Map { value, .. } => GoType::Map(container(), Box::new(self.go_type_of(value))),
        }
    }
}

impl Shape {
    fn is_scalar(&self) -> bool {
        matches!(self, Self::String | Self::Int32 | Self::Int64 | Self::Float | Self::Boolean)
    }
}

impl fmt::Display for GoType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Struct(name) => f.write_str(type_def(name).map_or(name, TypeDef::go_name)),
            Self::Pointer(inner) => write!(f, "*{inner}"),
            Self::Slice(name, inner) if name.is_empty() => write!(f, "[]{inner}"),
            Self::Map(name, inner) if name.is_empty() => write!(f, "map[string]{inner}"),
            Self::Bool(name)
            | Self::String(name)
            | Self::Integer(name)
            | Self::Float(name)
            | Self::Slice(name, _)
            | Self::Map(name, _) => f.write_str(name),
            Self::Bytes => f.write_str("[]uint8"),
            Self::Quantity => f.write_str("resource.Quantity"),
            Self::IntOrString => f.write_str("intstr.IntOrString"),
            Self::Time => f.write_str("v1.Time"),
            Self::MicroTime => f.write_str("v1.MicroTime"),
            Self::Url => f.write_str("apis.URL"),
            Self::Raw => f.write_str("runtime.RawExtension"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_json() {
        for (json, go) in [
            ("containers", "Containers"),
            ("httpGet", "HTTPGet"),
            ("tty", "TTY"),
            ("url", "URL"),
            ("setHostnameAsFQDN", "SetHostnameAsFQDN"),
            ("", ""),
        ] {
            assert_eq!(name(json), go);
        }
    }

    /// Declarations of a type: JSON key, Go name, Go type, and `omitempty`, `omitzero` or neither.
    fn declarations(name: &str) -> Vec<String> {
        let def = type_def(name).unwrap();
        def.go_fields()
            .map(|field| {
                let omit = match field.omit {
                    Omit::Never => "",
                    Omit::Empty => ",omitempty",
                    Omit::Zero => ",omitzero",
                };
                let embedded = if field.embedded { " embedded" } else { "" };
                format!("{} {} `{}{omit}`{embedded}", field.name, field.ty, field.json)
            })
            .collect()
    }

    #[test]
    fn declarations_are_those_of_go() {
        assert_eq!(type_def("core.v1.PodSpec").unwrap().go_name(), "v1.PodSpec");
        assert_eq!(type_def("knative.apis.Condition").unwrap().go_name(), "apis.Condition");
        assert_eq!(
            declarations("core.v1.HTTPGetAction"),
            [
                "Path string `path,omitempty`",
                "Port intstr.IntOrString `port`",
                "Host string `host,omitempty`",
                "Scheme v1.URIScheme `scheme,omitempty`",
                "HTTPHeaders []v1.HTTPHeader `httpHeaders,omitempty`",
            ]
        );
        assert_eq!(
            declarations("core.v1.ResourceRequirements"),
            [
                "Limits v1.ResourceList `limits,omitempty`",
                "Requests v1.ResourceList `requests,omitempty`",
                "Claims []v1.ResourceClaim `claims,omitempty`",
            ]
        );
        assert_eq!(
            declarations("inference.v1.InferencePoolSpec"),
            [
                "Selector v1.LabelSelector `selector,omitzero`",
                "TargetPorts []v1.Port `targetPorts,omitempty`",
                "AppProtocol v1.AppProtocol `appProtocol,omitempty`",
                "EndpointPickerRef v1.EndpointPickerRef `endpointPickerRef,omitzero`",
            ]
        );
        assert_eq!(
            declarations("serving.v1alpha2.LLMInferenceService"),
            [
                "TypeMeta v1.TypeMeta `,omitempty` embedded",
                "ObjectMeta v1.ObjectMeta `metadata` embedded",
                "Spec v1alpha2.LLMInferenceServiceSpec `spec`",
                "Status v1alpha2.LLMInferenceServiceStatus `status`",
            ]
        );
        let security = declarations("core.v1.SecurityContext");
        assert!(
            security.contains(&"SELinuxOptions *v1.SELinuxOptions `seLinuxOptions,omitempty`".to_owned())
        );
        assert!(security.contains(&"RunAsUser *int64 `runAsUser,omitempty`".to_owned()));
        let rbac = declarations("core.v1.ISCSIVolumeSource");
        assert!(rbac.contains(&"DiscoveryCHAPAuth bool `chapAuthDiscovery,omitempty`".to_owned()));
    }
}
