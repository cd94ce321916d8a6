//! How to find the cause of each condition of a service that does not hold: a table with one row per condition.

use longboat_api::{
    conditions::{Condition, types},
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use crate::{
    chain::{composition, gateways, pools, proof, routes, scaling, workloads},
    facts::Facts,
    finding::Cause,
};

/// Returns the cause of a condition that does not hold, or `None` if everything behind it works by now.
type Follow = fn(&Facts, &LLMInferenceService, &Condition) -> Option<Cause>;

/// How to handle a condition.
pub(super) struct Row {
    /// Its type.
    pub(super) type_: &'static str,
    /// Finds its cause.
    pub(super) follow: Follow,
    /// Whether it only repeats other conditions. Then it is ignored if one of the others does not hold.
    pub(super) restates: bool,
}

/// The conditions with causes, in the order in which the controller sets them.
pub(super) const ROWS: &[Row] = &[
    row(types::PRESETS_COMBINED, |facts, service, condition| {
        Some(composition::follow(facts, service, condition))
    }),
    row(types::OCI_IMAGE_VOLUME_COMPATIBLE, OWN_WORDS),
    row(types::MAIN_WORKLOAD_READY, WORKLOAD),
    row(types::WORKER_WORKLOAD_READY, WORKLOAD),
    row(types::PREFILL_WORKLOAD_READY, WORKLOAD),
    row(types::PREFILL_WORKER_WORKLOAD_READY, WORKLOAD),
    row(types::SCALING_READY, SCALER),
    row(types::PREFILL_SCALING_READY, SCALER),
    row(types::TOKENIZER_READY, WORKLOAD),
    row(types::SCHEDULER_WORKLOAD_READY, WORKLOAD),
    row(types::GATEWAYS_READY, gateway),
    row(types::HTTP_ROUTES_READY, route),
    row(types::INFERENCE_POOL_READY, |facts, service, condition| {
        pools::cause(facts, service).or_else(|| Some(own_words(service, condition)))
    }),
    row(types::ADAPTERS_LOADED, OWN_WORDS),
    restating_row(types::ROUTER_READY, |facts, service, condition| {
        gateway_api_missing(facts).or_else(|| Some(own_words(service, condition)))
    }),
    restating_row(types::GROUP_READY, OWN_WORDS),
    restating_row(types::SERVING_PROVEN, PROVEN),
    restating_row(types::KV_TRANSFER_OBSERVED, PROVEN),
];

const OWN_WORDS: Follow = |_, service, condition| Some(own_words(service, condition));
const WORKLOAD: Follow = |facts, service, condition| Some(workloads::follow(facts, service, condition));
const SCALER: Follow = |facts, service, condition| Some(scaling::follow(facts, service, condition));
const PROVEN: Follow = |facts, service, condition| Some(proof::follow(facts, service, condition));

const fn row(type_: &'static str, follow: Follow) -> Row {
    Row { type_, follow, restates: false }
}

const fn restating_row(type_: &'static str, follow: Follow) -> Row {
    Row { type_, follow, restates: true }
}

/// The cause of a service that is not ready, with the text of its condition.
pub(super) fn not_ready(service: &LLMInferenceService, message: &str) -> Cause {
    Cause::new("NotReady", message, workloads::describe(service))
}

fn own_words(service: &LLMInferenceService, condition: &Condition) -> Cause {
    not_ready(service, &condition.message)
}

fn gateway_api_missing(facts: &Facts) -> Option<Cause> {
    let fix = "install the Gateway API (v1) and a Gateway controller, or remove spec.router.route";
    let missing = !facts.snapshot.capabilities.gateway_api;
    missing.then(|| Cause::new("GatewayApiMissing", "the cluster does not serve the Gateway API", fix))
}

fn gateway(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Option<Cause> {
    let namespace = Namespace::of(&service.metadata);
    let trouble = || {
        service.spec.gateway_refs().iter().find_map(|found| {
            let home = Some(found.namespace.as_str()).filter(|home| !home.is_empty());
            gateways::cause(facts, home.map_or(namespace, Namespace), Name(&found.name))
        })
    };
    gateway_api_missing(facts).or_else(trouble).or_else(|| Some(own_words(service, condition)))
}

fn route(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Option<Cause> {
    let namespace = Namespace::of(&service.metadata);
    let managed = names::route(Name::of(&service.metadata));
    let all = routes::of_service(service);
    // If a managed route could not be written, the condition has the reason.
    let made = |route: &&String| {
        facts.snapshot.http_routes.get(namespace, Name(route)).is_some() || **route != managed
    };
    gateway_api_missing(facts)
        .or_else(|| missing_gateway(facts, service))
        .or_else(|| all.iter().filter(made).find_map(|route| routes::cause(facts, namespace, Name(route))))
        .or_else(|| Some(own_words(service, condition)))
}

/// Returns a cause if the managed route needs the default Gateway and that is missing.
fn missing_gateway(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let route = service.spec.route()?;
    let inline = route.http.as_ref().and_then(|http| http.spec.as_ref());
    let own = !route.refs().is_empty()
        || !service.spec.gateway_refs().is_empty()
        || inline.is_some_and(|spec| !spec.parent_refs.is_empty());
    let ingress = &facts.snapshot.platform.ingress;
    let (namespace, name) = (ingress.gateway.namespace.as_deref(), ingress.gateway.name.as_deref());
    let needed = !own && facts.snapshot.gateways.get(namespace, name).is_none();
    needed.then(|| gateways::cause(facts, namespace, name)).flatten()
}

#[cfg(test)]
mod tests {
    use longboat_api::conditions;

    use super::*;

    /// Conditions without a cause: roll-ups, whose parts have causes, and conditions that do not affect readiness.
    const NO_CAUSE: &[&str] = &[
        types::READY,
        types::WORKLOADS_READY,
        types::GROUP_DEGRADED,
        types::MODEL_FETCHED,
        types::KV_PAIRED,
        types::CONFIG_IN_USE,
    ];

    #[test]
    fn every_condition_is_followed_or_has_no_cause() {
        for condition in conditions::ALL {
            let followed = ROWS.iter().filter(|row| row.type_ == condition.type_).count();
            let expected = usize::from(!NO_CAUSE.contains(&condition.type_));
            assert_eq!(followed, expected, "{}", condition.type_);
        }
    }
}
