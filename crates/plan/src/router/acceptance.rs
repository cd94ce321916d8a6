//! What Gateways report about a route.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use longboat_api::{
    foreign::{
        httproute::{HTTPRoute, RouteParentStatus},
        reference::ParentReference,
    },
    groups,
};
use longboat_key::Namespace;

/// Whether two references name the same parent, after defaulting.
pub(super) fn same_parent(a: &ParentReference, b: &ParentReference, namespace: Namespace<&str>) -> bool {
    fn key<'a>(parent: &'a ParentReference, namespace: Namespace<&'a str>) -> [&'a str; 5] {
        [
            parent.group.as_deref().unwrap_or(groups::GATEWAY),
            parent.kind.as_deref().unwrap_or("Gateway"),
            parent.namespace.as_deref().unwrap_or(namespace.as_str()),
            &parent.name,
            parent.section_name.as_deref().unwrap_or_default(),
        ]
    }
    key(a, namespace) == key(b, namespace) && a.port == b.port
}

/// Returns why the route does not work yet, or `None` if it works. Each parent must have accepted the route and resolved its
/// backends, at the route's generation. A parent that the route no longer names must not report a problem either.
pub(crate) fn objection(route: &HTTPRoute) -> Option<String> {
    let namespace = Namespace::of(&route.metadata);
    let generation = route.metadata.generation.unwrap_or_default();
    let statuses: Vec<&RouteParentStatus> = route.status.iter().flat_map(|status| &status.parents).collect();
    if route.spec.parent_refs.is_empty() {
        return Some("it has no parentRef to a Gateway".into());
    }
    for parent in &route.spec.parent_refs {
        let reported = statuses.iter().any(|status| {
            same_parent(parent, &status.parent_ref, namespace)
                && find(&status.conditions, "Accepted").is_some()
        });
        if !reported {
            return Some(format!("waiting for {} to accept it", display(parent, namespace)));
        }
    }
    // Entries without Accepted come from policy controllers, which do not decide here.
    for status in statuses {
        let Some(accepted) = find(&status.conditions, "Accepted") else { continue };
        let parent = display(&status.parent_ref, namespace);
        let Some(resolved) = find(&status.conditions, "ResolvedRefs") else {
            let message = "ResolvedRefs condition not yet reported by gateway controller";
            return Some(format!("\"Unknown\" (reason \"ConditionMissing\", message {message:?})"));
        };
        for condition in [accepted, resolved] {
            if condition.status != "True" {
                let Condition { status, reason, message, .. } = condition;
                return Some(format!("{status:?} (reason {reason:?}, message {message:?})"));
            }
            let seen = condition.observed_generation.unwrap_or_default();
            // Implementations that do not set the generation report 0, which says nothing.
            if seen != 0 && seen < generation {
                return Some(format!(
                    "waiting for {parent} to process generation {generation} (processed so far: {seen})"
                ));
            }
        }
    }
    None
}

/// The condition of this type.
pub(crate) fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn display(parent: &ParentReference, namespace: Namespace<&str>) -> String {
    let kind = parent.kind.as_deref().unwrap_or("Gateway");
    format!("{kind} {}/{}", parent.namespace.as_deref().map_or(namespace, Namespace), parent.name)
}
