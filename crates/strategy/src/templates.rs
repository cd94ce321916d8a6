//! Kinds that hold a pod template or an older revision, and for which this project has no controller.

use serde_json::{Value, json};

use super::{Strategy, checks::IMMUTABLE, update::differs};
use crate::Field;

/// ControllerRevisions.
#[derive(Debug)]
pub(crate) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        if live.is_some_and(|live| live["data"] != object["data"]) {
            object.at("data").invalid(IMMUTABLE);
        }
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

    fn returns_deleted_object(&self) -> bool {
        true
    }
}
