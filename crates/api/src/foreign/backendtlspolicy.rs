//! BackendTLSPolicy, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use super::reference::{LocalObjectReference, ParentReference, SecretObjectReference};
use crate::resource::kind;
use crate::wire;

kind! {
    /// A BackendTLSPolicy: how a Gateway connects to Services with TLS.
    pub struct BackendTLSPolicy: "gateway.networking.k8s.io", "v1", "backendtlspolicies", Namespaced {
        spec: BackendTLSPolicySpec,
        status: BackendTLSPolicyStatus,
    }
}

/// The Services, and how their certificates are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTLSPolicySpec {
    /// The Services, in the namespace of the policy.
    #[serde(deserialize_with = "wire::null_default")]
    pub target_refs: Vec<PolicyTargetReference>,

    /// How their certificates are checked.
    #[serde(deserialize_with = "wire::null_default")]
    pub validation: BackendTLSPolicyValidation,
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

/// How certificates are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTLSPolicyValidation {
    /// ConfigMaps with the CA certificates, in `ca.crt`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub ca_certificate_refs: Vec<SecretObjectReference>,

    /// `System` for the CA certificates of the machine.
    #[serde(rename = "wellKnownCACertificates", skip_serializing_if = "Option::is_none")]
    pub well_known_ca_certificates: Option<String>,

    /// The server name, which the certificate must contain unless `subjectAltNames` says otherwise.
    #[serde(deserialize_with = "wire::null_default")]
    pub hostname: String,

    /// Names of which the certificate must contain one.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubjectAltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    pub type_: String,

    /// The name, with `Hostname`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub hostname: String,

    /// The name, with `URI`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub uri: String,
}

/// What was observed of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTLSPolicyStatus {
    /// What each Gateway says.
    #[serde(deserialize_with = "wire::null_default")]
    pub ancestors: Vec<PolicyAncestorStatus>,
}

/// What one Gateway says of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyAncestorStatus {
    /// The Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    pub ancestor_ref: ParentReference,

    /// Who says so.
    #[serde(deserialize_with = "wire::null_default")]
    pub controller_name: String,

    /// Accepted, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,
}
