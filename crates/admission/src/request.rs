//! What admission is asked.

use longboat_api::{conversion::Version, v1alpha2::GROUP};
use serde_json::Value;

/// The kinds that are admitted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// LLMInferenceService.
    Service,
    /// LLMInferenceServiceConfig.
    Config,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The version of the objects.
    pub version: Version,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The object as it will be; none on `DELETE`.
    pub object: Option<&'a Value>,
    /// The object as it is stored; none on `CREATE`.
    pub old: Option<&'a Value>,
}

// === impl Request ===

impl Request<'_> {
    /// Whether an object that is being deleted is changed. Everything passes then, so that finalizers can go from what is
    /// invalid by now, or cannot even be read.
    pub(crate) fn is_of_deleted(&self) -> bool {
        let deleted = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        self.operation == "UPDATE" && self.object.is_some_and(deleted)
    }
}

// === impl Subject ===

impl Subject {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Service, Self::Config];

    /// The kind of a resource, if it is one of ours.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| group == GROUP && resource == subject.resource())
    }

    /// The kind of an object, if it is one of ours.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| kind == subject.kind())
    }

    /// The kind.
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
