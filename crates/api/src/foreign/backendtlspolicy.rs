//! BackendTLSPolicy, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use super::reference::{LocalObjectReference, ParentReference, SecretObjectReference};
use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A BackendTLSPolicy: how a Gateway connects to Services with TLS.
    pub struct BackendTLSPolicy: "gateway.networking.k8s.io", "v1", "backendtlspolicies", Namespaced {
        spec: BackendTLSPolicySpec,
        status: BackendTLSPolicyStatus,
    }
}

go_struct! {
    /// The Services, and how their certificates are checked.
    #[derive(Eq)]
    pub struct BackendTLSPolicySpec {
        /// The Services, in the namespace of the policy.
        always pub target_refs: Vec<PolicyTargetReference>,

        /// How their certificates are checked.
        always pub validation: BackendTLSPolicyValidation,
    }
}

/// A Service, or one of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTargetReference {
    /// The Service.
    #[serde(flatten)]
    pub object: LocalObjectReference,

    /// Name of the port. Absent means all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

go_struct! {
    /// How certificates are checked.
    #[derive(Eq)]
    pub struct BackendTLSPolicyValidation {
        /// ConfigMaps with the CA certificates, in `ca.crt`.
        pub ca_certificate_refs: Vec<SecretObjectReference>,

        /// `System` for the CA certificates of the machine.
        #[serde(rename = "wellKnownCACertificates")]
        pub well_known_ca_certificates: Option<String>,

        /// The server name, which the certificate must contain unless `subjectAltNames` says otherwise.
        always pub hostname: String,

        /// Names of which the certificate must contain one.
        pub subject_alt_names: Vec<SubjectAltName>,
    }

    /// A name in a certificate.
    #[derive(Eq)]
    pub struct SubjectAltName {
        /// `Hostname` or `URI`.
        #[serde(rename = "type")]
        always pub type_: String,

        /// The name, with `Hostname`.
        pub hostname: String,

        /// The name, with `URI`.
        pub uri: String,
    }

    /// What was observed of a policy.
    pub struct BackendTLSPolicyStatus {
        /// What each Gateway says.
        always pub ancestors: Vec<PolicyAncestorStatus>,
    }

    /// What one Gateway says of a policy.
    pub struct PolicyAncestorStatus {
        /// The Gateway.
        always pub ancestor_ref: ParentReference,

        /// Who says so.
        always pub controller_name: String,

        /// Accepted, ResolvedRefs.
        pub conditions: Vec<Condition>,
    }
}
