//! A pool that selects none of the service's pods, or names a port at which none of them listens.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use longboat_api::{foreign::inferencepool::PoolPort, v1alpha2::LLMInferenceService};
use longboat_key::Name;
use longboat_plan::{Plan, names};

use crate::{finding::Advice, pods::templates};

/// Finds a selector of the managed pool that matches no pod template of the service.
pub(super) fn check(service: &LLMInferenceService, plan: &Plan) -> Option<Advice> {
    let picker = plan.children.deployment(&names::scheduler(Name::of(&service.metadata)));
    let of_picker = picker.and_then(|picker| Some(&picker.spec.as_ref()?.template));
    let pool = &plan.children.inference_pools.first()?.spec;
    let selector = &pool.selector.match_labels;
    // The pool is for model servers: a selector that fits only the picker is wrong, too.
    let templates: Vec<&PodTemplateSpec> =
        templates(&plan.children).filter(|template| Some(*template) != of_picker).collect();
    let selected = || {
        let templates = templates.iter();
        templates.filter(|template| selector.iter().all(|label| has_label(template, label)))
    };
    if selected().next().is_some() {
        return wrong_port(&pool.target_ports, selected().filter_map(|template| template.spec.as_ref()));
    }
    // The preset's labels are a part of the selector, and are not the mistake.
    let wanting =
        selector.iter().filter(|label| !templates.iter().any(|template| has_label(template, *label)));
    let labels: Vec<String> = wanting.map(|(key, value)| format!("{key}={value}")).collect();
    Some(Advice::warning(
        "spec.router.scheduler.pool.spec.selector",
        "PoolSelectsNothing",
        format!(
            "selects no pod of this service ({}): unless other pods have these labels, every request gets 503",
            labels.join(",")
        ),
        "remove the selector, or set the labels in spec.labels",
    ))
}

/// Finds a port that no container of the pods has.
fn wrong_port<'a>(targets: &[PoolPort], pods: impl Iterator<Item = &'a PodSpec>) -> Option<Advice> {
    let known: BTreeSet<i32> = pods
        .flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()))
        .flat_map(|container| container.ports.iter().flatten())
        .map(|port| port.container_port)
        .collect();
    let wrong =
        targets.iter().position(|port| !known.contains(&port.number)).filter(|_| !known.is_empty())?;
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    Some(Advice::warning(
        format!("spec.router.scheduler.pool.spec.targetPorts[{wrong}].number"),
        "PoolPort",
        format!(
            "is {}, at which no container of this service listens: every request gets 502 or 503",
            targets[wrong].number
        ),
        format!("write the port of the model server; the containers have {}", known.join(", ")),
    ))
}

fn has_label(template: &PodTemplateSpec, (key, value): (&String, &String)) -> bool {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    labels.and_then(|labels| labels.get(key)) == Some(value)
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{findings, service};

    #[test]
    fn a_pool_whose_selector_fits_no_pod_of_the_service_is_warned_about() {
        let router_with = |labels: &str, selector: &str, port: u16| {
            let picker = "{name: s-epp-service, port: {number: 9002}}";
            let lines = [
                &format!("{labels}  model: {{uri: 'hf://a/b', name: q}}"),
                "  router:",
                "    gateway: {}",
                "    route: {}",
                "    scheduler:",
                "      pool:",
                "        spec:",
                &format!("          targetPorts: [{{number: {port}}}]"),
                &format!("          endpointPickerRef: {picker}"),
                &format!("          selector: {{matchLabels: {selector}}}"),
            ];
            service("s", &lines.join("\n"))
        };
        let router = |labels: &str, selector: &str| router_with(labels, selector, 8000);
        let expected = "selects no pod of this service (app=other): unless other pods have these labels, every request gets 503";
        let of = |text: &str| findings(text).into_iter().map(|finding| finding.message).collect::<Vec<_>>();
        assert_eq!(of(&router("", "{app: other}")), [expected]);
        assert_eq!(of(&router("  labels: {app: other}\n", "{app: other}")), [""; 0]);
        assert_eq!(
            of(&router_with("  labels: {app: other}\n", "{app: other}", 9999)),
            ["is 9999, at which no container of this service listens: every request gets 502 or 503"]
        );
    }
}
