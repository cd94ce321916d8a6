//! Checks that a gateway knows for each model which service serves it.

use longboat_api::annotations;
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{Peer, RoutedService, model_collisions, names};

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let running = facts.services.iter().filter(|service| {
        let metadata = &service.metadata;
        metadata.deletion_timestamp.is_none() && !annotations::is_stopped(metadata.annotations.as_ref())
    });
    let with_route: Vec<_> = running
        .filter_map(|service| {
            let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
            let route = facts.snapshot.http_routes.get(namespace, Name(&names::route(name)))?;
            Some((Key::of(service.as_ref()), Peer::of(service), route))
        })
        .collect();
    let routed: Vec<_> = with_route
        .iter()
        .map(|(key, peer, route)| RoutedService {
            key: key.clone(),
            models: peer.models.iter().map(AsRef::as_ref).collect(),
            group: peer.group.as_deref(),
            route: &route.spec,
        })
        .collect();
    findings.extend(model_collisions(&routed).into_iter().map(|collision| {
        let text = format!(
            "model {:?} has the name of a model of LLMInferenceService {} at the same Gateway, so requests that name only the model reach \
             one of the two services",
            collision.model, collision.other
        );
        let fix = "set another spec.model.name, or one spec.router.route.group in both, which shares the traffic";
        Cause::new("ModelNameCollision", text, fix).warning_about(format!("LLMInferenceService {}", collision.service))
    }));
}
