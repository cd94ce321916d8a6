//! Which namespaces a listener or Gateway accepts objects from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use longboat_api::{foreign::gateway::RouteNamespaces, labels::NAMESPACE_NAME};
use longboat_key::{Name, Namespace};

use crate::{RoutingInputs, observed::selects};

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
            found.is_some_and(|namespace| labelled(namespaces, namespace.metadata.labels.as_ref()))
        }
        _ => false,
    }
}

fn labelled(namespaces: &RouteNamespaces, labels: Option<&BTreeMap<String, String>>) -> bool {
    let selector = namespaces.selector.clone().unwrap_or_default();
    let exact = selector.match_labels.unwrap_or_default();
    (exact.is_empty() || selects(&exact, labels))
        && selector.match_expressions.iter().flatten().all(|expression| {
            let value = labels.and_then(|labels| labels.get(&expression.key));
            let listed = || value.is_some_and(|value| expression.values.iter().flatten().any(|v| v == value));
            match expression.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
