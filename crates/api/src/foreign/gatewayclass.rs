//! GatewayClass, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A GatewayClass: who runs the Gateways that name it.
    pub struct GatewayClass: "gateway.networking.k8s.io", "v1", "gatewayclasses", Cluster {
        spec: GatewayClassSpec,
        status: GatewayClassStatus,
    }
}

go_struct! {
    /// Who runs the Gateways of a class.
    #[derive(Eq)]
    pub struct GatewayClassSpec {
        /// Name of the controller.
        always pub controller_name: String,
    }

    /// What was observed of a GatewayClass.
    pub struct GatewayClassStatus {
        /// Accepted.
        pub conditions: Vec<Condition>,

        /// Names of the features that the controller supports, in alphabetical order.
        pub supported_features: Vec<SupportedFeature>,
    }

    /// A feature of the Gateway API.
    #[derive(Eq)]
    pub struct SupportedFeature {
        /// Name of the feature.
        always pub name: String,
    }
}
