//! References across namespaces, which a ReferenceGrant in the namespace of the target permits.

pub(crate) use longboat_api::groups::GATEWAY as GATEWAY_GROUP;
use longboat_key::{Key, Namespace};

use crate::RoutingInputs;

/// An object with references.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Referrer<'a> {
    pub(crate) kind: &'a str,
    pub(crate) namespace: Namespace<&'a str>,
}

impl RoutingInputs {
    /// Whether an object of the Gateway API may refer to the object `target` of this group and kind.
    pub(crate) fn permits(&self, from: Referrer<'_>, (group, kind): (&str, &str), target: &Key) -> bool {
        // A namespace trusts itself, so grants are about others only.
        if from.namespace == target.namespace.as_deref() {
            return true;
        }
        let grants = self
            .grants
            .iter()
            .filter(|grant| grant.metadata.namespace.as_deref().unwrap_or_default() == &*target.namespace);
        grants.into_iter().any(|grant| {
            let from = grant.spec.from.iter().any(|permitted| {
                permitted.group == GATEWAY_GROUP
                    && permitted.kind == from.kind
                    && Namespace(permitted.namespace.as_str()) == from.namespace
            });
            let to = grant.spec.to.iter().any(|permitted| {
                permitted.group == group
                    && permitted.kind == kind
                    && permitted.name.as_ref().is_none_or(|name| **name == *target.name)
            });
            from && to
        })
    }
}
