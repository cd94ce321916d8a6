//! The reference's Go types for services and configs, as tables.
//!
//! The tables determine three things: which zero values a layer keeps, which Go names templates and their errors use, and the
//! order of keys in the text on which templates run. They describe Kubernetes 1.34, Gateway API 1.5, the inference extension
//! 1.5, KEDA 2.18 and KServe's v1alpha2.

mod autoscaling;
mod container;
mod duck;
mod gateway;
mod keda;
mod meta;
mod methods;
mod own;
mod pod;
mod pool;
mod projection;
mod volume;

use longboat_template::reflect::{
    Field, Omit, Struct,
    Ty::{self, Bool, Ptr, Str},
};

/// A struct: `structure!(NAME, "pkg.Name", [fields])`.
macro_rules! structure {
    ($name:ident, $go:literal, [$($field:expr),* $(,)?]) => {
        structure!($name, $go, [$($field),*], &[longboat_template::reflect::Method::COPY]);
    };
    ($name:ident, $go:literal, [$($field:expr),* $(,)?], $methods:expr) => {
        pub(super) static $name: longboat_template::reflect::Struct =
            longboat_template::reflect::Struct { name: $go, fields: &[$($field),*], methods: $methods };
    };
}

macro_rules! field {
    ($json:expr, $go:literal, $ty:expr, $omit:ident, $embedded:literal) => {
        longboat_template::reflect::Field {
            json: $json,
            go: $go,
            ty: $ty,
            omit: longboat_template::reflect::Omit::$omit,
            embedded: $embedded,
        }
    };
}

/// A field with `omitempty`.
macro_rules! opt {
    ($json:literal, $go:literal, $ty:expr) => {
        super::field!($json, $go, $ty, Empty, false)
    };
}

/// A field that is always written.
macro_rules! req {
    ($json:literal, $go:literal, $ty:expr) => {
        super::field!($json, $go, $ty, Never, false)
    };
}

/// A field with `omitzero`.
macro_rules! zero {
    ($json:literal, $go:literal, $ty:expr) => {
        super::field!($json, $go, $ty, Zero, false)
    };
}

/// An embedded struct whose fields are on the same level as the others in JSON.
macro_rules! inlined {
    ($go:literal, $ty:expr) => {
        super::field!("", $go, $ty, Empty, true)
    };
}

/// An embedded struct with its own key in JSON.
macro_rules! embed {
    ($json:literal, $go:literal, $ty:expr) => {
        super::field!($json, $go, $ty, Empty, true)
    };
}

use {embed, field, inlined, opt, req, structure, zero};

/// `LLMInferenceServiceSpec`.
pub(crate) const SPEC: Ty = Ty::Struct(&own::LLM_INFERENCE_SERVICE_SPEC);

/// `LLMInferenceServiceConfig`, whose JSON is the text that templates run on.
pub(crate) const CONFIG: Ty = Ty::Struct(&own::LLM_INFERENCE_SERVICE_CONFIG);

/// `LLMInferenceService`.
pub(crate) const SERVICE: Ty = Ty::Struct(&own::LLM_INFERENCE_SERVICE);

/// Key of the service in the data of templates.
pub(crate) const SERVICE_KEY: &str = "service";

/// Key of the platform settings in the data of templates.
pub(crate) const GLOBAL_KEY: &str = "global";

static GLOBAL_CONFIG: Struct = Struct {
    name: "llmisvc.templateGlobalConfig",
    fields: &[
        global("SystemNamespace", Str("string")),
        global("IngressGatewayName", Str("string")),
        global("IngressGatewayNamespace", Str("string")),
        global("EnableTLS", Bool("bool")),
        global("ModelBasedRoutingHeaderName", Str("string")),
        global("InferencePoolNamespacedName", Str("string")),
        // Specific to Longboat: the image of this build, or an empty string if the reference's images are wanted.
        global("Image", Str("string")),
    ],
    methods: &[],
};

const fn global(name: &'static str, ty: Ty) -> Field {
    Field { json: name, go: name, ty, omit: Omit::Never, embedded: false }
}

static ROOT: Struct = Struct {
    name: "struct { *v1alpha2.LLMInferenceService; GlobalConfig llmisvc.templateGlobalConfig }",
    fields: &[
        Field {
            json: SERVICE_KEY,
            go: "LLMInferenceService",
            ty: Ptr(&Ty::Struct(&own::LLM_INFERENCE_SERVICE)),
            omit: Omit::Never,
            embedded: true,
        },
        Field {
            json: GLOBAL_KEY,
            go: "GlobalConfig",
            ty: Ty::Struct(&GLOBAL_CONFIG),
            omit: Omit::Never,
            embedded: false,
        },
    ],
    methods: &[],
};

/// The value of `.` at the start of every template: the service, and the platform settings that templates may see.
pub(crate) const TEMPLATE_DATA: Ty = Ty::Struct(&ROOT);

/// The struct that declares a field, which may be an embedded one, and the field's type.
pub(crate) fn find_field(s: &'static Struct, key: &str) -> Option<(&'static Struct, Ty)> {
    s.fields.iter().find_map(|field| match field.ty {
        Ty::Struct(inner) if field.json.is_empty() => find_field(inner, key),
        ty if field.json == key => Some((s, ty)),
        _ => None,
    })
}
