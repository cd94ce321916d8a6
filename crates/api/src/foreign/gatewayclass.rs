//! GatewayClass, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference::ObjectReference;
use crate::resource::kind;
use crate::{schema, wire};

kind! {
    /// A GatewayClass: who runs the Gateways that name it.
    pub struct GatewayClass: "gateway.networking.k8s.io", "v1", "gatewayclasses", Cluster {
        spec: GatewayClassSpec,
        status: GatewayClassStatus,
    }
}

/// Who runs the Gateways of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassSpec {
    /// Name of the controller.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::controller_name_immutable", extend("x-required" = true))]
    pub controller_name: String,

    /// Settings of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ObjectReference>,

    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 64))]
    pub description: Option<String>,
}

/// What was observed of a GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassStatus {
    /// Accepted.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "maxItems" = 8, "x-default" = schema::pending_gatewayclass()))]
    pub conditions: Vec<Condition>,

    /// Features of the controller.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 64))]
    pub supported_features: Vec<SupportedFeature>,
}

/// A feature of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SupportedFeature {
    /// Name of the feature.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}
