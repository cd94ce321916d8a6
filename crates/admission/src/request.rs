//! What admission is asked, and what the answer depends on.

use longboat_api::v1alpha2::GROUP;
use serde_json::Value;

/// What the rules depend on beside the objects.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Namespace of the platform.
    pub system_namespace: String,
    /// Prefix of the names of presets.
    pub preset_prefix: String,
    /// Whether presets of the platform may not be deleted.
    pub prevent_preset_deletion: bool,
}

/// The kinds that are admitted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// LLMInferenceService.
    Service,
    /// LLMInferenceServiceConfig.
    Config,
}

/// The versions in which objects reach us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1alpha1`: served, not stored.
    V1Alpha1,
    /// `v1alpha2`: stored, and the version that everything here works on.
    V1Alpha2,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The object as it will be; none on `DELETE`.
    pub object: Option<&'a Value>,
    /// The object as it is stored; none on `CREATE`.
    pub old: Option<&'a Value>,
}

// === impl Subject ===

impl Subject {
    /// The kind of a resource, if it is one of ours.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        match (group, resource) {
            (GROUP, "llminferenceservices") => Some(Self::Service),
            (GROUP, "llminferenceserviceconfigs") => Some(Self::Config),
            _ => None,
        }
    }
}

// === impl Version ===

impl Version {
    /// The version by its name in `apiVersion`, if it is one of ours.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "v1alpha1" => Some(Self::V1Alpha1),
            "v1alpha2" => Some(Self::V1Alpha2),
            _ => None,
        }
    }
}
