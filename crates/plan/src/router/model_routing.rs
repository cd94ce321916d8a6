//! Routing by the model that a header names.

use longboat_api::{annotations::MODEL_BASED_ROUTING, foreign::httproute::HTTPRouteSpec};
use longboat_compose::platform::ModelRouting;
use longboat_key::{Name, Namespace};

use crate::context::Context;

/// Adds matches on the model header for adapters. If routing by model name is off, removes all matches on the header.
///
/// # Errors
/// If the names of the adapters cannot be determined.
pub(super) fn apply(context: &Context, spec: &mut HTTPRouteSpec) -> Result<(), String> {
    let header = &context.snapshot.platform.ingress.model_header;
    if enabled(context) {
        let adapters = context.adapters()?;
        for rule in &mut spec.rules {
            let mut more = Vec::new();
            for found in &rule.matches {
                let Some(position) = found.headers.iter().position(|candidate| candidate.name == *header)
                else {
                    continue;
                };
                for adapter in &adapters {
                    let mut copy = found.clone();
                    copy.headers[position].value = context.published_name(&adapter.name);
                    more.push(copy);
                }
            }
            rule.matches.extend(more);
        }
        return Ok(());
    }
    for rule in &mut spec.rules {
        rule.matches.retain(|found| !found.headers.iter().any(|candidate| candidate.name == *header));
    }
    // A rule without matches matches everything.
    spec.rules.retain(|rule| !rule.matches.is_empty());
    Ok(())
}

fn enabled(context: &Context) -> bool {
    let ingress = &context.snapshot.platform.ingress;
    let marked =
        context.spec.workload.annotations.get(MODEL_BASED_ROUTING).is_some_and(|value| value == "true");
    if ingress.model_header.is_empty() || !marked {
        return false;
    }
    match ingress.model_routing {
        ModelRouting::Disabled => false,
        ModelRouting::Forced => true,
        ModelRouting::Enabled => !vetoed(context),
    }
}

/// Whether a Gateway that the service names opts out of routing by model name.
fn vetoed(context: &Context) -> bool {
    let refs = context
        .spec
        .router
        .iter()
        .filter_map(|router| router.gateway.as_ref())
        .flat_map(|gateway| &gateway.refs);
    refs.into_iter().any(|reference| {
        let namespace = if reference.namespace.is_empty() {
            context.namespace
        } else {
            Namespace(reference.namespace.as_str())
        };
        let gateway = context.snapshot.gateways.get(namespace, Name(&reference.name));
        let annotations = gateway.and_then(|gateway| gateway.metadata.annotations.as_ref());
        annotations.and_then(|all| all.get(MODEL_BASED_ROUTING)).is_some_and(|value| value == "false")
    })
}
