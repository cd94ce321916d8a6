//! `render`: the objects that the controller would write.

use longboat_api::v1alpha2::{API_VERSION, LLMInferenceService};
use longboat_compose::Effective;
use longboat_manifest::parallel;
use longboat_plan::{ObjectRef, Plan, Problem, yaml};
use serde_json::{Value, json};

use crate::{
    advice, finding,
    objects::{self, Object},
    refusal,
    scene::{PlannedService, PlanningError, Scene},
};

/// The placeholder for a certificate or key that the controller issues when it writes the Secret.
pub(crate) const CERTIFICATE_PLACEHOLDER: &str = "<issued when the Secret is written>";
/// The placeholder for a time that the controller would write.
const TIME_PLACEHOLDER: &str = "<time>";

/// The writes and deletions that the controller would make for one service.
#[derive(Debug)]
pub struct ServiceRendering<T = Vec<Object>> {
    /// The children, in the order in which they are written.
    pub objects: T,
    /// Live children that would be deleted.
    pub removed: Vec<ObjectRef>,
    /// Notes for the user. Problems come first.
    pub notes: Vec<Note>,
    /// Whether planning stopped before everything was planned, or an API server would refuse a part.
    pub incomplete: bool,
}

/// A note for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its severity.
    pub severity: Severity,
    /// The text.
    pub message: String,
}

/// The severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is missing from the result.
    Problem,
    /// An API server would refuse a part of the result.
    Refused,
    /// Something is probably not meant.
    Warning,
    /// For information.
    Assumed,
}

/// Returns the children of a service.
///
/// # Errors
/// If the service cannot be composed.
pub fn children(scene: &Scene, service: &LLMInferenceService) -> Result<ServiceRendering, PlanningError> {
    rendered(scene, service, finished)
}

/// Returns the children of a service as YAML documents: the text that [`to_yaml`] creates from [`children`].
///
/// # Errors
/// If the service cannot be composed.
pub fn documents(
    scene: &Scene,
    service: &LLMInferenceService,
) -> Result<ServiceRendering<String>, PlanningError> {
    rendered(scene, service, |plan| objects::documents(&plan.children, |secret| fill_in(plan, secret)))
}

fn rendered<T>(
    scene: &Scene,
    service: &LLMInferenceService,
    objects: impl FnOnce(&Plan) -> T,
) -> Result<ServiceRendering<T>, PlanningError> {
    let planned = scene.plan(service)?;
    let mut notes = Vec::new();
    let mut note = |severity, message: String| notes.push(Note { severity, message });
    if let Some(problem) = &planned.plan.problem {
        note(Severity::Problem, sentence(problem));
    }
    let refused = refusal::findings(scene, service, &planned);
    for finding in &refused {
        let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        note(Severity::Refused, format!("{}{hint}", finding.what()));
    }
    notes.extend(warnings(scene, service, &planned));
    notes.extend(planned.assumed.into_iter().map(|message| Note { severity: Severity::Assumed, message }));
    Ok(ServiceRendering {
        objects: objects(&planned.plan),
        removed: planned.plan.remove,
        notes,
        incomplete: planned.plan.problem.is_some() || !refused.is_empty(),
    })
}

/// Returns what is probably not meant in a planned service.
pub fn warnings(scene: &Scene, service: &LLMInferenceService, planned: &PlannedService) -> Vec<Note> {
    let mut all = Vec::new();
    if let Some(effective) = &planned.effective {
        all = of_layers(scene, service, effective);
        let advice = advice::of(scene, service, effective, Some(&planned.plan));
        let certain = advice.iter().filter(|advice| advice.severity != finding::Severity::Note);
        all.extend(certain.map(|advice| warning(advice.sentence())));
    }
    let events = planned.plan.events.iter();
    all.extend(events.map(|event| warning(format!("{}: {}", event.reason, event.message))));
    all
}

/// Returns what is probably not meant in the layers of a composed service.
fn of_layers(scene: &Scene, service: &LLMInferenceService, effective: &Effective) -> Vec<Note> {
    let all = effective.warnings.iter().cloned().chain(scene.layer_warnings(service, effective));
    all.map(|found| warning(format!("{}: {}", found.reason, found.message))).collect()
}

fn warning(message: String) -> Note {
    Note { severity: Severity::Warning, message }
}

/// Says why planning stopped.
pub(crate) fn sentence(problem: &Problem) -> String {
    format!("{}: {} ({})", problem.reason, problem.message, problem.condition)
}

/// Runs [`children`] or [`documents`] for many services on all processors. Returns the results in order.
pub fn all<T: Send>(
    scene: &Scene,
    services: &[&LLMInferenceService],
    one: impl Fn(&Scene, &LLMInferenceService) -> Result<ServiceRendering<T>, PlanningError> + Sync,
) -> Vec<Result<ServiceRendering<T>, PlanningError>> {
    parallel::map(services, |service| one(scene, service))
}

/// Returns the planned objects, with placeholders for values that are only known when the objects are written.
pub(crate) fn finished(plan: &Plan) -> Vec<Object> {
    let mut all = objects::of(&plan.children);
    for object in &mut all {
        if object.value["kind"] == "Secret" {
            fill_in(plan, &mut object.value);
        }
    }
    all
}

/// Sets placeholders in a Secret whose certificate is not issued yet.
fn fill_in(plan: &Plan, secret: &mut Value) {
    if plan.certificates.iter().any(|request| secret["metadata"]["name"] == request.secret.as_str()) {
        secret["data"] = json!({ "ca.crt": CERTIFICATE_PLACEHOLDER, "tls.crt": CERTIFICATE_PLACEHOLDER, "tls.key": CERTIFICATE_PLACEHOLDER });
        if let Some(Value::Object(annotations)) = secret.pointer_mut("/metadata/annotations") {
            annotations.values_mut().for_each(|value| *value = json!(TIME_PLACEHOLDER));
        }
    }
}

/// Returns the service with the composed spec in place of its own.
///
/// # Errors
/// If the service cannot be composed.
pub fn effective(scene: &Scene, service: &LLMInferenceService) -> Result<(Value, Vec<Note>), PlanningError> {
    let effective = scene.compose(service)?;
    let notes = of_layers(scene, service, &effective);
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": "LLMInferenceService",
        "metadata": { "name": service.metadata.name, "namespace": service.metadata.namespace },
        "spec": effective.spec,
    });
    Ok((object, notes))
}

/// Formats objects as a stream of YAML documents.
pub fn to_yaml<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let objects: Vec<&Value> = objects.into_iter().collect();
    parallel::map(&objects, |object| format!("---\n{}", yaml::to_yaml(object))).concat()
}

/// Formats objects as one JSON document, a `List`.
pub fn to_json<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let items: Vec<&Value> = objects.into_iter().collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    // Objects have string keys, so this cannot fail.
    serde_json::to_string_pretty(&list).unwrap_or_default()
}
