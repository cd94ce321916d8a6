//! Which namespaces a listener or Gateway accepts objects from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use longboat_api::{foreign::gateway::RouteNamespaces, labels::NAMESPACE_NAME};
use longboat_key::{Name, Namespace};

use crate::RoutingInputs;

/// Leaves of a selector what can be decided of a namespace whose other labels are not known.
pub(crate) fn keep_name(selector: &mut LabelSelector) {
    selector.match_labels.get_or_insert_default().retain(|label, _| label == NAMESPACE_NAME);
    selector.match_expressions.get_or_insert_default().retain(|expression| expression.key == NAMESPACE_NAME);
}

/// Whether objects of namespace `other` are accepted by an object of namespace `own`. `default` applies if `from` is absent.
pub(crate) fn selected(
    observed: &RoutingInputs,
    namespaces: &RouteNamespaces,
    default: &str,
    own: Namespace<&str>,
    other: Namespace<&str>,
) -> bool {
    match namespaces.from.as_deref().unwrap_or(default) {
        "All" => true,
        "Same" => own == other,
        "Selector" => {
            let found = observed.namespaces.iter().find(|namespace| *Name::of(&namespace.metadata) == *other);
            let selector = Selector::try_from(namespaces.selector.clone().unwrap_or_default());
            found.zip(selector.ok()).is_some_and(|(found, selector)| selector.matches(found.labels()))
        }
        _ => false,
    }
}
