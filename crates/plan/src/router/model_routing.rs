//! Routing by the model that a header names.

use longboat_api::{
    annotations::{LORA_MODEL_ROUTING_STRATEGY, MODEL_BASED_ROUTING},
    engine::Engine,
    foreign::httproute::{HTTPHeaderMatch, HTTPRouteMatch, HTTPRouteRule, HTTPRouteSpec},
    lora_routing::LoRaRoutingStrategy,
};
use longboat_compose::platform::ModelRouting;

use super::gateway;
use crate::{context::Context, peer::models_of_spec};

const EXACT: &str = "Exact";
const REGULAR_EXPRESSION: &str = "RegularExpression";
/// The matches of a rule that the Gateway API takes.
const MAX_MATCHES: usize = 64;

/// Lets the matches on the model header accept the names of adapters too. If routing by model name is off, removes all matches
/// on the header.
///
/// # Errors
/// If the matches cannot be changed as the service or the platform asks. Then nothing is changed.
pub(super) fn apply(context: &Context, spec: &mut HTTPRouteSpec) -> Result<(), String> {
    let header = context.snapshot.platform.ingress.model_header.as_str();
    if !enabled(context) {
        for rule in &mut spec.rules {
            rule.matches.retain(|found| position(found, header).is_none());
        }
        // A rule without matches matches everything.
        spec.rules.retain(|rule| !rule.matches.is_empty());
        return Ok(());
    }
    let base = context.model_name();
    let adapters: Vec<&str> = models_of_spec(context.spec, context.name)
        .into_iter()
        .filter(|name| !name.is_empty() && *name != base)
        .collect();
    let mut matches = spec.rules.iter().flat_map(|rule| &rule.matches);
    if adapters.is_empty() || matches.all(|found| position(found, header).is_none()) {
        return Ok(());
    }
    let own = LoRaRoutingStrategy::of_annotations(&context.spec.workload.annotations);
    match own.map_err(|error| error.to_string())?.unwrap_or(context.snapshot.platform.ingress.lora_routing) {
        LoRaRoutingStrategy::Exact => return add_exact(context, header, &adapters, spec),
        LoRaRoutingStrategy::Regex => {
            check_base_matches(context, header, spec)?;
            let names = std::iter::once(base).chain(adapters).map(quoted).collect::<Vec<_>>().join("|");
            let value = format!("^{}({names})$", quoted(&context.published_name("")));
            let matches = spec.rules.iter_mut().flat_map(|rule| &mut rule.matches);
            for found in matches.flat_map(|found| &mut found.headers).filter(|found| is(found, header)) {
                found.type_ = Some(REGULAR_EXPRESSION.to_owned());
                found.value.clone_from(&value);
            }
        }
    }
    Ok(())
}

/// Adds a copy of each match for each adapter. Refuses what a rule has no room for: the API server would only count the matches.
fn add_exact(
    context: &Context,
    header: &str,
    adapters: &[&str],
    spec: &mut HTTPRouteSpec,
) -> Result<(), String> {
    for (at, rule) in spec.rules.iter().enumerate() {
        let by_model = rule.matches.iter().filter(|found| position(found, header).is_some()).count();
        let number = rule.matches.len() + by_model * adapters.len();
        if by_model > 0 && number > MAX_MATCHES {
            let room = MAX_MATCHES.saturating_sub(rule.matches.len()) / by_model;
            return Err(refused(
                LoRaRoutingStrategy::Exact,
                rule,
                at,
                &format!(
                    "would have {number} matches, and the Gateway API takes {MAX_MATCHES}, so {room} of the {} LoRA adapters fit",
                    adapters.len()
                ),
            ));
        }
    }
    for rule in &mut spec.rules {
        let mut copies = Vec::new();
        for found in &rule.matches {
            let Some(position) = position(found, header) else { continue };
            for adapter in adapters {
                let mut copy = found.clone();
                copy.headers[position].value = context.published_name(adapter);
                copies.push(copy);
            }
        }
        rule.matches.extend(copies);
    }
    Ok(())
}

/// Says that a strategy does not fit a rule, and which one does.
fn refused(strategy: LoRaRoutingStrategy, rule: &HTTPRouteRule, at: usize, problem: &str) -> String {
    let (name, other, matches) = match strategy {
        LoRaRoutingStrategy::Exact => ("exact", "regex", "one RegularExpression match"),
        LoRaRoutingStrategy::Regex => ("regex", "exact", "Exact matches"),
    };
    let rule = rule.name.clone().unwrap_or_else(|| at.to_string());
    format!(
        "LoRA routing strategy {name:?} cannot be applied: rule {rule:?} {problem}; set \
         spec.annotations[{LORA_MODEL_ROUTING_STRATEGY}] to {other:?} to route this service with {matches} instead; any existing \
         HTTPRoute keeps its previous matches"
    )
}

/// Refuses matches on the model header that are not those of the base model: nobody knows which adapters they are for.
fn check_base_matches(context: &Context, header: &str, spec: &HTTPRouteSpec) -> Result<(), String> {
    let base = context.published_name(context.model_name());
    for (at, rule) in spec.rules.iter().enumerate() {
        for (number, found) in rule.matches.iter().enumerate() {
            let mut by_model = found.headers.iter().filter(|candidate| is(candidate, header));
            let Some(first) = by_model.next() else { continue };
            let type_ = first.type_.as_deref().unwrap_or(EXACT);
            let problem = if by_model.next().is_some() {
                format!(
                    "carries multiple case-equivalent {header} headers; Gateway API only evaluates the first"
                )
            } else if type_ != EXACT || first.value != base {
                format!(
                    "has an unrecognized {header} match (type {type_}, value {:?}); expected an Exact match on the base model \
                     identity {base:?}",
                    first.value
                )
            } else {
                continue;
            };
            return Err(refused(LoRaRoutingStrategy::Regex, rule, at, &format!("match {number} {problem}")));
        }
    }
    Ok(())
}

/// The position of the model header among the headers of a match.
fn position(found: &HTTPRouteMatch, header: &str) -> Option<usize> {
    found.headers.iter().position(|candidate| is(candidate, header))
}

/// Whether a match is on the header. The names of headers have no case.
fn is(found: &HTTPHeaderMatch, header: &str) -> bool {
    found.name.eq_ignore_ascii_case(header)
}

/// A regular expression that matches only this text, in the syntax that gateways have in common.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

fn enabled(context: &Context) -> bool {
    let ingress = &context.snapshot.platform.ingress;
    let marked =
        context.spec.workload.annotations.get(MODEL_BASED_ROUTING).is_some_and(|value| value == "true");
    if ingress.model_header.is_empty() || !marked || !Engine::serves_published_name(context.spec) {
        return false;
    }
    match ingress.model_routing {
        ModelRouting::Disabled => false,
        ModelRouting::Forced => true,
        ModelRouting::Enabled => !opts_out(context),
    }
}

/// Whether a Gateway that the service names opts out of routing by model name.
fn opts_out(context: &Context) -> bool {
    context.spec.gateway_refs().iter().any(|reference| {
        let (namespace, name) = gateway::of_reference(context, reference);
        let gateway = context.snapshot.gateways.get(namespace, name);
        let annotations = gateway.and_then(|gateway| gateway.metadata.annotations.as_ref());
        annotations.and_then(|all| all.get(MODEL_BASED_ROUTING)).is_some_and(|value| value == "false")
    })
}
