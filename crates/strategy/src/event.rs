//! Events, in their core form and in the one of `events.k8s.io`.

use serde_json::Value;

use super::Strategy;
use crate::{Field, checks::qualified};

/// Events. Both views show the same objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// An Event of the core group, with `involvedObject`.
    Core,
    /// An Event of `events.k8s.io`, with `regarding`.
    Regarding,
}

impl Strategy for Event {
    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        let own = object.text("metadata.namespace");
        let about = if *self == Self::Core { "involvedObject.namespace" } else { "regarding.namespace" };
        let about = object.text_at(about);
        let other = about.as_text();
        // events about cluster-scoped objects live in the default namespace
        if other != own && !(other.is_empty() && own == "default") {
            about.invalid("does not match event.namespace");
        }
        if *self == Self::Core {
            return;
        }
        if object["eventTime"].is_string() {
            for key in ["reportingController", "reportingInstance", "action", "reason"] {
                object.at(key).not_empty("");
            }
            // kube-apiserver validates its own form of an Event, and shows no text.
            for (key, shown, limit) in [
                ("reportingInstance", "reportingInstance", 128),
                ("action", "action", 128),
                ("reason", "reason", 128),
                ("note", "message", 1024),
            ] {
                if object.text(key).len() > limit {
                    let detail = format!("can have at most {limit} characters");
                    object.at(key).named(shown.to_owned()).invalid_as(Value::from(""), detail);
                }
            }
            let controller = object.text_at("reportingController");
            qualified(&controller, controller.as_text());
        } else {
            object.at("eventTime").required("");
        }
        let kind = object.text_at("type");
        if !matches!(kind.as_text(), "Normal" | "Warning") {
            kind.invalid(format!("has invalid value: {}", kind.as_text()));
        }
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn selectable(&self) -> &'static [&'static str] {
        match self {
            Self::Core => &[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
            Self::Regarding => &[
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ],
        }
    }
}
