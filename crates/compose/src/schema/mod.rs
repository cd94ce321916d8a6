//! The reference's Go types for services and configs.
//!
//! They determine three things: which zero values a layer keeps, which Go names templates and their errors use, and the order
//! of keys in the text on which templates run. The fields come from the table of types (crate `types`), the methods from
//! [`methods`].

mod methods;

use std::{borrow::Cow, collections::HashMap, sync::LazyLock};

use longboat_template::reflect::{Field, Struct, Ty};
use longboat_types::{
    TypeDef,
    go::{GoType, Omit},
    type_def,
};

/// Key of the service in the data of templates.
pub(crate) const SERVICE_KEY: &str = "service";

/// Key of the platform settings in the data of templates.
pub(crate) const GLOBAL_KEY: &str = "global";

/// The struct that declares a field, which may be an embedded one, and the field's type.
pub(crate) fn find_field(s: &'static Struct, key: &str) -> Option<(&'static Struct, Ty)> {
    s.fields().iter().find_map(|field| match field.ty {
        Ty::Struct(inner) if field.json.is_empty() => find_field(inner, key),
        ty if field.json == key => Some((s, ty)),
        _ => None,
    })
}

/// The types from which all others are reached, and those that methods return.
pub(crate) struct Types {
    /// `LLMInferenceServiceSpec`.
    pub(crate) spec: Ty,
    /// `LLMInferenceServiceConfig`, whose JSON is the text that templates run on.
    pub(crate) config: Ty,
    /// `LLMInferenceService`.
    pub(crate) service: Ty,
    /// The value of `.` at the start of every template: the service, and the platform settings that templates may see.
    pub(crate) template_data: Ty,
    status: Ty,
    condition: Ty,
}

pub(crate) static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let mut structs = Structs::default();
    let service = structs.of("serving.v1alpha2.LLMInferenceService");
    GLOBALS.declare([
        global("SystemNamespace", Ty::Str("string")),
        global("IngressGatewayName", Ty::Str("string")),
        global("IngressGatewayNamespace", Ty::Str("string")),
        global("EnableTLS", Ty::Bool("bool")),
        global("ModelBasedRoutingHeaderName", Ty::Str("string")),
        global("InferencePoolNamespacedName", Ty::Str("string")),
        // Specific to Longboat: the image of this build, or an empty string if the reference's images are wanted.
        global("Image", Ty::Str("string")),
    ]);
    TEMPLATE_DATA.declare([
        Field {
            json: SERVICE_KEY,
            go: "LLMInferenceService",
            ty: Ty::Ptr(leak(service)),
            omit: Omit::Never,
            embedded: true,
        },
        Field { json: GLOBAL_KEY, ..global("GlobalConfig", Ty::Struct(&GLOBALS)) },
    ]);
    Types {
        spec: structs.of("serving.v1alpha2.LLMInferenceServiceSpec"),
        config: structs.of("serving.v1alpha2.LLMInferenceServiceConfig"),
        service,
        template_data: Ty::Struct(&TEMPLATE_DATA),
        status: structs.of("knative.v1.Status"),
        condition: structs.of("knative.apis.Condition"),
    }
});

static GLOBALS: Struct = Struct::new("llmisvc.templateGlobalConfig", &[]);

static TEMPLATE_DATA: Struct =
    Struct::new("struct { *v1alpha2.LLMInferenceService; GlobalConfig llmisvc.templateGlobalConfig }", &[]);

fn global(name: &'static str, ty: Ty) -> Field {
    Field { json: name, go: name, ty, omit: Omit::Never, embedded: false }
}

/// Structs by their names in the table. They refer to each other and live as long as the process, so they are leaked, once.
#[derive(Default)]
struct Structs(HashMap<&'static str, &'static Struct>);

// === impl Structs ===

impl Structs {
    fn of(&mut self, name: &'static str) -> Ty {
        if let Some(known) = self.0.get(name) {
            return Ty::Struct(known);
        }
        let def = type_def(name);
        let structure = leak(Struct::new(def.map_or(name, TypeDef::go_name), methods::of(name)));
        // It is known before its fields are: an adapter has the type of a model, which has adapters.
        self.0.insert(name, structure);
        let fields = def.into_iter().flat_map(TypeDef::go_fields).map(|field| Field {
            json: field.json,
            go: text(field.name),
            ty: self.ty(field.ty),
            omit: field.omit,
            embedded: field.embedded,
        });
        structure.declare(fields);
        Ty::Struct(structure)
    }

    fn ty(&mut self, ty: GoType) -> Ty {
        match ty {
            GoType::Bool(name) => Ty::Bool(text(name)),
            GoType::String(name) => Ty::Str(text(name)),
            GoType::Integer(name) => Ty::Int(text(name)),
            GoType::Float(name) => Ty::Float(text(name)),
            GoType::Bytes => Ty::Slice("", &Ty::Int("uint8")),
            GoType::Struct(name) => self.of(name),
            GoType::Pointer(inner) => Ty::Ptr(leak(self.ty(*inner))),
            GoType::Slice(name, inner) => Ty::Slice(text(name), leak(self.ty(*inner))),
            GoType::Map(name, inner) => Ty::Map(text(name), leak(self.ty(*inner))),
            GoType::Quantity => Ty::Quantity,
            GoType::IntOrString => Ty::IntOrString,
            GoType::Time | GoType::MicroTime => Ty::Time,
            GoType::Url => Ty::Url,
            GoType::Raw => Ty::Raw,
        }
    }
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn text(name: Cow<'static, str>) -> &'static str {
    match name {
        Cow::Borrowed(name) => name,
        Cow::Owned(name) => name.leak(),
    }
}

#[cfg(test)]
mod tests {
    use longboat_api::crd::SERVICE_SPEC;
    use serde_json::Value;

    use super::*;

    /// Finds the fields of a JSON schema that the type lacks. Reading a layer would drop them.
    fn lost(path: &str, schema: &Value, ty: Ty, found: &mut Vec<String>) {
        match ty {
            Ty::Ptr(inner) => lost(path, schema, *inner, found),
            Ty::Slice(_, inner) => lost(path, &schema["items"], *inner, found),
            Ty::Map(_, inner) => lost(path, &schema["additionalProperties"], *inner, found),
            Ty::Struct(of) => {
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    let path = format!("{path}.{name}");
                    match find_field(of, name) {
                        Some((_, ty)) => lost(&path, schema, ty, found),
                        None => found.push(path),
                    }
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_field_of_the_api_is_in_the_table() {
        let schema: Value = serde_json::from_str(SERVICE_SPEC).unwrap();
        let mut found = Vec::new();
        lost("spec", &schema["properties"]["spec"], TYPES.spec, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
