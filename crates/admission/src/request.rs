//! The request of an admission.

use longboat_api::{conversion::Version, v1alpha2::GROUP};
use serde_json::Value;

/// The kinds that the webhooks handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// LLMInferenceService.
    Service,
    /// LLMInferenceServiceConfig.
    Config,
}

/// A request for admission.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The version of the objects.
    pub version: Version,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The object after the operation; `None` for `DELETE`.
    pub object: Option<&'a Value>,
    /// The stored object; `None` for `CREATE`.
    pub old: Option<&'a Value>,
}

// === impl Request ===

impl Request<'_> {
    /// Whether this is an update of an object that is being deleted. Every such update is allowed, so that finalizers can be
    /// removed from objects that have become invalid or cannot be decoded.
    pub(crate) fn is_of_deleted(&self) -> bool {
        let deleted = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        self.operation == "UPDATE" && self.object.is_some_and(deleted)
    }
}

// === impl Subject ===

impl Subject {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Service, Self::Config];

    /// Returns the kind of a resource, or `None` if it is not one of ours.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| group == GROUP && resource == subject.resource())
    }

    /// Returns the kind of an object, or `None` if it is not one of ours.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| kind == subject.kind())
    }

    /// The name of the kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Service => "LLMInferenceService",
            Self::Config => "LLMInferenceServiceConfig",
        }
    }

    /// The plural name in paths.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Service => "llminferenceservices",
            Self::Config => "llminferenceserviceconfigs",
        }
    }
}
