//! A pool that selects none of the service's pods.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::Effective;
use longboat_key::Name;
use longboat_plan::names;

use super::Advice;
use crate::scene::Scene;

/// Finds a selector of the managed pool that matches no pod template of the service.
pub(super) fn check(scene: &Scene, service: &LLMInferenceService, effective: &Effective) -> Option<Advice> {
    let scheduler = effective.spec.router.as_ref()?.scheduler.as_ref()?;
    // Planning is expensive, and the pool of most services is that of the preset.
    scheduler.pool.as_ref()?.spec.as_ref()?;
    let (plan, ..) = scene.plan_spec(service, &effective.spec).ok()?;
    let selector = &plan.children.inference_pools.first()?.spec.selector.match_labels;
    let picker = names::scheduler(Name::of(&service.metadata));
    let deployments = plan.children.deployments.iter();
    let deployments =
        deployments.filter(|deployment| deployment.metadata.name.as_deref() != Some(picker.as_str()));
    let groups = plan.children.leader_worker_sets.iter().map(|set| &set.spec.leader_worker_template);
    let groups = groups.flat_map(|group| group.leader_template.iter().chain([&group.worker_template]));
    let templates: Vec<&PodTemplateSpec> = deployments
        .filter_map(|deployment| Some(&deployment.spec.as_ref()?.template))
        .chain(groups)
        .collect();
    if templates.iter().any(|template| selector.iter().all(|label| has_label(template, label))) {
        return None;
    }
    // The preset's labels are a part of the selector, and are not the mistake.
    let wanting =
        selector.iter().filter(|label| !templates.iter().any(|template| has_label(template, *label)));
    let labels: Vec<String> = wanting.map(|(key, value)| format!("{key}={value}")).collect();
    Some(Advice::warning(
        "spec.router.scheduler.pool.spec.selector".to_owned(),
        "PoolSelectsNothing",
        format!(
            "selects no pod of this service ({}): unless other pods have these labels, every request gets 503",
            labels.join(",")
        ),
        "remove the selector, or set the labels in spec.labels".to_owned(),
    ))
}

fn has_label(template: &PodTemplateSpec, (key, value): (&String, &String)) -> bool {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    labels.and_then(|labels| labels.get(key)) == Some(value)
}
