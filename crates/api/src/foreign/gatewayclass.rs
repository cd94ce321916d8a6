//! GatewayClass, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::wire;

kind! {
    /// A GatewayClass: who runs the Gateways that name it.
    pub struct GatewayClass: "gateway.networking.k8s.io", "v1", "gatewayclasses", Cluster {
        spec: GatewayClassSpec,
        status: GatewayClassStatus,
    }
}

/// Who runs the Gateways of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassSpec {
    /// Name of the controller.
    #[serde(deserialize_with = "wire::null_default")]
    pub controller_name: String,
}

/// What was observed of a GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassStatus {
    /// Accepted.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// Names of the features that the controller supports, in alphabetical order.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub supported_features: Vec<SupportedFeature>,
}

/// A feature of the Gateway API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SupportedFeature {
    /// Name of the feature.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,
}
