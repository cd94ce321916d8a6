//! Events, in their core form and in the one of `events.k8s.io`.

use serde_json::Value;

use super::Strategy;
use crate::Cause;

/// Events. Both views show the same objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// An Event of the core group, with `involvedObject`.
    Core,
    /// An Event of `events.k8s.io`, with `regarding`.
    Regarding,
}

impl Strategy for Event {
    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let own = value["metadata"]["namespace"].as_str().unwrap_or_default();
        let (field, object) = if *self == Self::Core {
            ("involvedObject.namespace", &value["involvedObject"])
        } else {
            ("regarding.namespace", &value["regarding"])
        };
        let other = object["namespace"].as_str().unwrap_or_default();
        // events about cluster-scoped objects live in the default namespace
        if other != own && !(other.is_empty() && own == "default") {
            causes.push(Cause::invalid(field, &Value::from(other), "does not match event.namespace"));
        }
        if *self == Self::Core {
            return causes;
        }
        if value["eventTime"].is_string() {
            for key in ["reportingController", "reportingInstance", "action", "reason"] {
                if value[key].as_str().is_none_or(str::is_empty) {
                    causes.push(Cause::required(key, ""));
                }
            }
        } else {
            causes.push(Cause::required("eventTime", ""));
        }
        let kind = value["type"].as_str().unwrap_or_default();
        if kind != "Normal" && kind != "Warning" {
            causes.push(Cause::invalid("type", &Value::from(kind), format!("has invalid value: {kind}")));
        }
        causes
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
