//! Checks whether a node admits a pod. Pure functions.
//!
//! Kubernetes: component-helpers/scheduling/corev1.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod, Taint, Toleration};
use kube::ResourceExt;

use super::{requirement::holds, stand_in};

/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Returns why the pod cannot run on the node, in the words of the scheduler, or `None` if it can. If the node stands in for
/// others, only the labels that a person gave it decide whether the pod selects it.
pub(super) fn unschedulable_reason(
    pod: &Pod,
    node: &Node,
    given_labels: Option<&BTreeMap<String, String>>,
) -> Option<String> {
    let spec = node.spec.clone().unwrap_or_default();
    if spec.unschedulable == Some(true) {
        let cordoned = Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: "NoSchedule".to_owned(),
            value: None,
            time_added: None,
        };
        if !is_tolerated(pod, &cordoned) {
            return Some("1 node(s) were unschedulable".to_owned());
        }
    }
    let stands_in = || given_labels.is_some_and(|given| stand_in::labels(pod, node, given).is_some());
    if !is_selected(pod, node) && !stands_in() {
        return Some("1 node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let taints = spec.taints.unwrap_or_default();
    let taint = taints.iter().find(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && taint.key != UNSCHEDULABLE
            && !is_tolerated(pod, taint)
    })?;
    let value = taint.value.as_deref().unwrap_or_default();
    Some(format!("1 node(s) had untolerated taint {{{}: {value}}}", taint.key))
}

/// Returns how many pods the node takes. A node that does not say so takes any number.
pub(super) fn max_pods(node: &Node) -> usize {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let pods = allocatable.and_then(|resources| resources.get("pods")?.0.parse().ok());
    pods.unwrap_or(usize::MAX)
}

/// Returns the taints that evict a running pod, each with the seconds until the eviction.
pub(super) fn evicting_taints<'a>(pod: &Pod, node: &'a Node) -> impl Iterator<Item = (&'a Taint, i64)> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").filter_map(|taint| {
        let mut tolerations = tolerations(pod).filter(|toleration| tolerates(toleration, taint)).peekable();
        let patience = if tolerations.peek().is_none() {
            Some(0)
        } else {
            tolerations.filter_map(|toleration| toleration.toleration_seconds).min()
        };
        patience.map(|seconds| (taint, seconds.max(0)))
    })
}

fn tolerations(pod: &Pod) -> impl Iterator<Item = &Toleration> {
    pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten())
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    tolerations(pod).any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    let same_key = key == taint.key;
    (effect.is_empty() || effect == taint.effect)
        && match toleration.operator.as_deref() {
            Some("Exists") => key.is_empty() || same_key,
            None | Some("" | "Equal") => same_key && text(&toleration.value) == text(&taint.value),
            Some(_) => false,
        }
}

fn is_selected(pod: &Pod, node: &Node) -> bool {
    let spec = pod.spec.clone().unwrap_or_default();
    let labels = node.labels();
    let has_all = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity);
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution);
    has_all
        && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| fits(term, node)))
}

/// Whether a term matches the node. An empty term matches no node.
fn fits(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.name_any();
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|one| holds(one, node.labels().get(&one.key).map(String::as_str)))
        && fields.iter().all(|one| one.key == "metadata.name" && holds(one, Some(&name)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn node(spec: &Value) -> Node {
        let labels = json!({"kubernetes.io/os": "linux", "cores": "8"});
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_cordoned_or_tainted_node_takes_only_who_tolerates_it() {
        let cordoned = node(&json!({"unschedulable": true}));
        assert_eq!(
            unschedulable_reason(&pod(json!({})), &cordoned, None).as_deref(),
            Some("1 node(s) were unschedulable")
        );
        let everything = json!({"tolerations": [{"operator": "Exists"}]});
        assert_eq!(unschedulable_reason(&pod(everything.clone()), &cordoned, None), None);
        let tainted = node(&json!({"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]}));
        assert_eq!(
            unschedulable_reason(&pod(json!({})), &tainted, None).as_deref(),
            Some("1 node(s) had untolerated taint {gpu: a}")
        );
        for (toleration, is_let_in) in [
            (json!({"key": "gpu", "value": "a"}), true),
            (json!({"key": "gpu", "value": "b"}), false),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
        ] {
            let pod = pod(json!({"tolerations": [toleration]}));
            assert_eq!(unschedulable_reason(&pod, &tainted, None).is_none(), is_let_in, "{toleration}");
        }
        let preferred = node(&json!({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}));
        assert_eq!(unschedulable_reason(&pod(json!({})), &preferred, None), None);
    }

    #[test]
    fn selectors_and_affinity_are_looked_at() {
        let node = node(&json!({}));
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [term]}}}})
        };
        let expression = |key: &str, operator: &str, values: Value| {
            affinity(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        for (spec, fits) in [
            (json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), true),
            (json!({"nodeSelector": {"disk": "ssd"}}), false),
            (expression("cores", "Gt", json!(["4"])), true),
            (expression("cores", "Lt", json!(["4"])), false),
            (expression("kubernetes.io/os", "In", json!(["linux", "x"])), true),
            (expression("kubernetes.io/os", "NotIn", json!(["linux"])), false),
            (expression("disk", "DoesNotExist", json!([])), true),
            (
                affinity(
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
                ),
                true,
            ),
            (affinity(json!({})), false),
        ] {
            assert_eq!(unschedulable_reason(&pod(spec.clone()), &node, None).is_none(), fits, "{spec}");
        }
    }

    #[test]
    fn a_pod_is_driven_out_when_its_patience_ends() {
        let node = node(&json!({"taints": [{"key": "k", "effect": "NoExecute"}]}));
        let tolerating = |seconds: Value| {
            pod(json!({"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": seconds}]}))
        };
        let patience = |pod| evicting_taints(&pod, &node).map(|(_, seconds)| seconds).next();
        assert_eq!(patience(pod(json!({}))), Some(0));
        assert_eq!(patience(tolerating(json!(30))), Some(30));
        assert_eq!(patience(tolerating(json!(null))), None);
    }
}
