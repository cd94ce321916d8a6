//! Services in the manifests that serve a model of the same name at the same Gateway.

use longboat_api::{
    annotations,
    foreign::httproute::HTTPRouteSpec,
    reasons::event::MODEL_NAME_COLLISION,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::Effective;
use longboat_key::{Key, Name};
use longboat_plan::{RoutedService, group_of, model_collisions, models_of_spec};

use super::SubjectPlan;
use crate::{
    finding::{Finding, ObjectName, Source},
    scene::Scene,
};

/// Returns a warning for each service whose requests another service may get.
pub(super) fn findings(scene: &Scene, plans: &[SubjectPlan<'_>]) -> Vec<Finding> {
    // Why a service cannot be composed is said about the service.
    let composed = plans
        .iter()
        .filter(|(subject, _)| !annotations::is_stopped(subject.service.metadata.annotations.as_ref()))
        .filter_map(|(subject, planned)| {
            Some((&*subject.service, planned.as_ref().ok()?.effective.as_ref()?))
        });
    let composed: Vec<(&LLMInferenceService, &Effective)> = composed.collect();
    let routed = composed.iter().filter_map(|(service, effective)| {
        Some(RoutedService {
            key: Key::of(*service),
            models: models_of_spec(&effective.spec, Name::of(&service.metadata)),
            group: group_of(&effective.spec),
            route: route(&effective.spec)?,
        })
    });
    let collisions = model_collisions(&routed.collect::<Vec<_>>());
    let warnings = collisions.into_iter().filter_map(|collision| {
        let document = scene.document("LLMInferenceService", &collision.service)?;
        let name = ObjectName::of(document, collision.service.namespace.as_deref());
        let (service, _) = composed.iter().find(|(service, _)| Key::of(*service) == collision.service)?;
        let path = path(&service.spec, collision.model);
        let message = format!(
            "model {:?} has the name of a model of LLMInferenceService {} at the same Gateway: requests that name only the model reach one \
             of the two services",
            collision.model, collision.other
        );
        let finding = Finding::at(document, &name, &path, Source::Plan).warning(MODEL_NAME_COLLISION, message);
        let hint = "use another name, or one spec.router.route.group in both, which shares the traffic";
        Some(finding.with_hint(hint))
    });
    warnings.collect()
}

fn route(spec: &LLMInferenceServiceSpec) -> Option<&HTTPRouteSpec> {
    spec.route()?.http.as_ref()?.spec.as_deref()
}

/// The path of a model's name.
fn path(spec: &LLMInferenceServiceSpec, model: &str) -> String {
    let mut adapters = spec.models().skip(1);
    let found = adapters.find(|(_, adapter)| adapter.name.as_deref() == Some(model));
    format!("{}.name", found.map_or_else(|| "spec.model".to_owned(), |(path, _)| path))
}
