//! Which live children are no longer wanted.

use longboat_api::labels::{self, COMPONENT, NAME, PART_OF, PART_OF_VALUE, component};
use longboat_key::{Name, Namespace};

use crate::{
    child::Child,
    children::{ChildKind, Children, ObjectRef},
    context::Context,
    kinds::types,
    names, owner,
    problem::Phase,
};

/// Adds the live objects of one kind that belong to the service and are not planned.
///
/// An object belongs to the service if it has our label and is controlled by the service's uid. An object that only has the
/// name of a child belongs to somebody else, and stays. Objects of the parts after a problem are spared, because it is not
/// known whether they are wanted.
fn unplanned_of_kind<K: Child, S>(
    context: &Context,
    planned: &Children<S>,
    spared: Option<Phase>,
    found: &mut Vec<ObjectRef>,
) {
    // Cluster-scoped children have no owner; their names and labels identify them.
    let cluster_scoped = K::CHILD_KIND == ChildKind::ClusterRoleBinding;
    let observed = K::observed(context.snapshot);
    let named = cluster_scoped.then(|| {
        let usual = names::scheduler_auth_binding(context.namespace, context.name);
        let distinct = names::distinct_scheduler_auth_binding(context.namespace, context.name);
        // Nobody but the service writes the distinct name, and its labels name the service. So a change arrives without a
        // recorded lookup, which would cost memory for each service.
        let distinct = (**observed).get(Namespace(""), Name(&distinct));
        observed.get(Namespace(""), Name(&usual)).into_iter().chain(distinct)
    });
    let controlled = (!cluster_scoped).then(|| observed.controlled(context.namespace, context.uid));
    for live in named.into_iter().flatten().chain(controlled.into_iter().flatten()) {
        let metadata = live.metadata();
        let label = |key: &str| labels::value(metadata, key);
        let ours = if cluster_scoped {
            label(NAME) == Some(context.name.as_str())
        } else {
            owner::controls(context.uid, metadata)
        };
        // Claim templates have no labels.
        let part = K::CHILD_KIND == ChildKind::ResourceClaimTemplate || label(PART_OF) == Some(PART_OF_VALUE);
        if !ours || !part || metadata.deletion_timestamp.is_some() {
            continue;
        }
        let phase = match label(COMPONENT) {
            Some(component::ROUTER | component::SCHEDULER | component::TOKENIZER) => Phase::Router,
            _ => Phase::Workload,
        };
        let is_planned = K::of(planned).iter().any(|child| child.metadata().name == metadata.name);
        if !is_planned && spared.is_none_or(|problem| phase < problem) {
            found.push(live.reference());
        }
    }
}

macro_rules! children {
    ($($(#[$doc:meta])* $field:ident: $kind:ident ($go_type:literal, $wave:ident) $observed:tt;)*) => {
        /// Live children that are no longer planned, in the order in which to delete them. That is the reverse of the table's
        /// order: an object that sends traffic goes before the object that receives it.
        pub(crate) fn unplanned_children<S>(context: &Context, planned: &Children<S>, spared: Option<Phase>) -> Vec<ObjectRef> {
            let mut found = Vec::new();
            $(unplanned_of_kind::<types::$kind, S>(context, planned, spared, &mut found);)*
            found.reverse();
            found
        }
    };
}

crate::kinds!(children children);
