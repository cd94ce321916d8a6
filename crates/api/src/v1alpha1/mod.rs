//! `serving.kserve.io/v1alpha1`: served, not stored. Only types that differ from [`crate::v1alpha2`] are defined here; the
//! rest of the schema is that of v1alpha2, and objects are converted as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::schema;

/// `apiVersion` of both kinds.
pub const API_VERSION: &str = "serving.kserve.io/v1alpha1";

/// Fields of a model that only this version has.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ModelFields {
    /// Criticality of requests to this model: `Critical`, `Standard` or `Sheddable`. Without effect in this release: the
    /// annotation `internal.serving.kserve.io/model-criticality` keeps the value for clients that read v1alpha1.
    #[schemars(extend("enum" = ["Critical", "Standard", "Sheddable"]))]
    pub criticality: String,
}

/// The managed InferencePool in the older form, as `inference.networking.x-k8s.io/v1alpha2` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct InferencePoolSpec {
    /// Labels of the pods that belong to the pool; a pod needs all of them.
    #[schemars(schema_with = "schema::plain_selector", extend("x-required" = true))]
    pub selector: BTreeMap<String, String>,

    /// Port on which the model servers listen.
    #[schemars(extend("x-required" = true))]
    pub target_port_number: i32,

    /// The picker that chooses among the pods of the pool.
    pub extension_ref: ExtensionReference,
}

/// A picker, in the older form.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExtensionReference {
    /// API group of the picker; empty for the core group, where Services are.
    #[schemars(schema_with = "schema::group")]
    pub group: String,

    /// Kind of the picker. Absent means `Service`.
    #[schemars(schema_with = "schema::kind")]
    pub kind: String,

    /// Name of the picker, in the namespace of the service.
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Port of the picker. Absent means 9002 for a Service.
    #[schemars(schema_with = "schema::port")]
    pub port_number: i32,

    /// What happens to a request when the picker does not answer: `FailOpen` sends it to any pod, `FailClose` refuses it.
    #[schemars(extend("enum" = ["FailOpen", "FailClose"], "x-required" = true))]
    pub failure_mode: String,
}
