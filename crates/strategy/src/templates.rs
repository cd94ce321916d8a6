//! Kinds that hold a pod template or an older revision, and for which this project has no controller.

use serde_json::{Value, json};

use super::{Strategy, update::differs};
use crate::Cause;

/// ControllerRevisions.
#[derive(Debug)]
pub(crate) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if live.is_some_and(|live| live["data"] != value["data"]) {
            causes.push(Cause::invalid("data", &value["data"], "field is immutable"));
        }
        causes
    }
}

/// ReplicationControllers.
#[derive(Debug)]
pub(crate) struct ReplicationController;

impl Strategy for ReplicationController {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"replicas": 0});
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }
}

/// PodTemplates.
#[derive(Debug)]
pub(crate) struct PodTemplate;

impl Strategy for PodTemplate {
    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }

    fn shows_deleted(&self) -> bool {
        true
    }
}
