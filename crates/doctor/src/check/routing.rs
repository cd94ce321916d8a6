//! Checks the HTTPRoutes of users and the listeners of Gateways. What breaks a service is a finding of the service.

use std::collections::BTreeSet;

use longboat_api::foreign::httproute::HTTPRoute;
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use crate::{
    chain::{gateways, routes},
    facts::Facts,
    finding::Finding,
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    // A cluster has routes that are nobody's business here; a local cluster has only those of its user.
    let of_services: BTreeSet<Namespace> =
        facts.services.iter().map(|service| Namespace::of(&service.metadata).to_shared()).collect();
    let is_told =
        |findings: &[Finding], step: &String| findings.iter().any(|finding| finding.chain.contains(step));
    for route in facts.snapshot.http_routes.iter() {
        let (namespace, name) = (Namespace::of(&route.metadata), Name::of(&route.metadata));
        if !of_services.contains(&*namespace) || !(facts.all_services || leads_to_one(facts, route)) {
            continue;
        }
        let object = format!("HTTPRoute {namespace}/{name}");
        if let Some(mut cause) = routes::cause(facts, namespace, name)
            && !is_told(findings, &object)
        {
            cause.chain.retain(|step| *step != object);
            findings.push(cause.broken(object));
        }
    }
    for gateway in facts.snapshot.gateways.iter() {
        let (namespace, name) = (Namespace::of(&gateway.metadata), Name::of(&gateway.metadata));
        let object = format!("Gateway {namespace}/{name}");
        let is_ours = facts.local || of_services.contains(&*namespace);
        if is_ours && !is_told(findings, &object) && findings.iter().all(|finding| finding.object != object) {
            findings.extend(gateways::refused_listeners(gateway).map(|cause| cause.warning_about(&object)));
        }
    }
}

/// Whether a route leads to the pool or to the pods of one of the services.
fn leads_to_one(facts: &Facts, route: &HTTPRoute) -> bool {
    let own = facts.services.iter().flat_map(|service| {
        let name = Name::of(&service.metadata);
        [names::pool(name), names::workload_service(name)]
    });
    let own: BTreeSet<String> = own.collect();
    route
        .spec
        .rules
        .iter()
        .flat_map(|rule| &rule.backend_refs)
        .any(|back_end| own.contains(&back_end.backend.name))
}
