//! The node that this node pretends to be for a pod. Pure functions.
//!
//! Manifests select nodes of a cluster: with this accelerator, in that zone. The only node of this machine stands in for all
//! of them, because otherwise the same manifest would wait here for ever. Pods may ask for nodes that exclude each other (one
//! accelerator for prefill, another one for decode), so each pod is judged by itself. Labels that a person has set are not
//! pretended away.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodAffinityTerm, PodSpec, Toleration,
};
use kube::ResourceExt;

use super::requirement::holds;
use crate::registration::own_labels;

type Labels = BTreeMap<String, String>;

/// Tolerations that every pod has, for nodes in trouble.
const NODE_TAINT_PREFIX: &str = "node.kubernetes.io/";

/// Returns the labels that a person gave the node: all but its own and those that it pretends to have.
pub(super) fn given_labels(node: &Node, pretended: &Labels) -> Labels {
    let own = own_labels(&node.name_any());
    let is_given = |(key, value): &(&String, &String)| {
        own.get(*key) != Some(*value) && pretended.get(*key) != Some(*value)
    };
    let given = node.labels().iter().filter(is_given);
    given.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the labels of a node that the pod's node selector and required node affinity accept, or `None` if they do not
/// accept the given labels.
pub(super) fn labels(pod: &Pod, node: &Node, given: &Labels) -> Option<Labels> {
    let spec = pod.spec.as_ref()?;
    let mut labels = Labels::new();
    for (key, value) in spec.node_selector.iter().flatten() {
        if given.get(key).is_some_and(|given| given != value) {
            return None;
        }
        labels.insert(key.clone(), value.clone());
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let Some(required) =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref())
    else {
        return Some(labels);
    };
    required.node_selector_terms.iter().find_map(|term| {
        let mut labels = labels.clone();
        complete(&mut labels, term, node, given).then_some(labels)
    })
}

/// Adds the labels that a term needs. Returns whether that is possible. An empty term matches no node.
fn complete(labels: &mut Labels, term: &NodeSelectorTerm, node: &Node, given: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.name_any();
    if expressions.is_empty() && fields.is_empty()
        || !fields.iter().all(|field| field.key == "metadata.name" && holds(field, Some(&name)))
    {
        return false;
    }
    let keys: BTreeSet<&str> = expressions.iter().map(|expression| expression.key.as_str()).collect();
    keys.into_iter().all(|key| {
        let about: Vec<&NodeSelectorRequirement> =
            expressions.iter().filter(|expression| expression.key == key).collect();
        let candidates = match given.get(key).or_else(|| labels.get(key)) {
            Some(value) => vec![Some(value.clone())],
            None => std::iter::once(None).chain(about.iter().flat_map(|one| values(one)).map(Some)).collect(),
        };
        let fits = |value: &Option<String>| about.iter().all(|one| holds(one, value.as_deref()));
        let Some(chosen) = candidates.into_iter().find(fits) else { return false };
        if let Some(value) = chosen {
            labels.insert(key.to_owned(), value);
        }
        true
    })
}

/// Returns values that may satisfy a requirement on a label.
fn values(requirement: &NodeSelectorRequirement) -> Vec<String> {
    let listed = requirement.values.clone().unwrap_or_default();
    let beside = |step: i64| {
        let bound = listed.first().and_then(|bound| bound.parse::<i64>().ok());
        bound.and_then(|bound| bound.checked_add(step)).map(|value| value.to_string()).into_iter().collect()
    };
    match requirement.operator.as_str() {
        "In" => listed,
        "Exists" => vec!["true".to_owned()],
        "Gt" => beside(1),
        "Lt" => beside(-1),
        _ => Vec::new(),
    }
}

/// Returns the keys by which a pod is spread over nodes or placed beside other pods.
pub(super) fn topology_keys(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let spread = spec.topology_spread_constraints.iter().flatten();
    let keys = spread.map(|constraint| constraint.topology_key.as_str());
    let keys = keys.chain(affinity_terms(spec).map(|term| term.topology_key.as_str()));
    keys.filter(|key| !key.is_empty()).collect()
}

/// Returns the required terms of affinity and anti-affinity to pods.
fn affinity_terms(spec: &PodSpec) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = || spec.affinity.iter();
    let near = affinity().filter_map(|all| all.pod_affinity.as_ref());
    let near = near.filter_map(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
    let far = affinity().filter_map(|all| all.pod_anti_affinity.as_ref());
    let far = far.filter_map(|all| all.required_during_scheduling_ignored_during_execution.as_ref());
    near.chain(far).flatten()
}

/// Returns the taints that a pod tolerates by name, as kubectl writes them. The node does not take these taints: it also
/// stands in for the nodes without them, on which the other pods would run.
pub(super) fn tolerated_taints(pod: &Pod) -> BTreeSet<String> {
    let all = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    all.filter_map(taint).collect()
}

fn taint(toleration: &Toleration) -> Option<String> {
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let key = text(&toleration.key).filter(|key| !key.starts_with(NODE_TAINT_PREFIX))?;
    let value = text(&toleration.value).map(|value| format!("={value}")).unwrap_or_default();
    let effect = text(&toleration.effect).map(|effect| format!(":{effect}")).unwrap_or_default();
    Some(format!("{key}{value}{effect}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(mut spec: Value) -> Pod {
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn node(labels: &Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap()
    }

    fn taken(spec: Value, node: &Node) -> Value {
        json!(labels(&pod(spec), node, &given_labels(node, &Labels::new())))
    }

    fn affinity(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn the_node_takes_the_labels_that_a_pod_asks_for() {
        let node = node(&json!({"kubernetes.io/os": std::env::consts::OS, "kubernetes.io/hostname": "n"}));
        let one = |key: &str, operator: &str, values: Value| {
            affinity(&json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        for (spec, expected) in [
            (json!({}), json!({})),
            (json!({"nodeSelector": {"gpu": "A100"}}), json!({"gpu": "A100"})),
            // The node is also another machine, if a pod asks for one.
            (
                json!({"nodeSelector": {"kubernetes.io/hostname": "gpu-7"}}),
                json!({"kubernetes.io/hostname": "gpu-7"}),
            ),
            (one("gpu", "In", json!(["H100", "A100"])), json!({"gpu": "H100"})),
            (one("gpu", "Exists", json!([])), json!({"gpu": "true"})),
            (one("gpu", "DoesNotExist", json!([])), json!({})),
            (one("gpu", "NotIn", json!(["T4"])), json!({})),
            (one("memory", "Gt", json!(["40"])), json!({"memory": "41"})),
            (one("memory", "Lt", json!(["40"])), json!({"memory": "39"})),
            (one("memory", "Gt", json!([i64::MAX.to_string()])), json!(null)),
            // Terms are alternatives; the expressions of a term are not.
            (
                affinity(&json!([
                    {},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["other"]}]},
                    {"matchExpressions": [
                        {"key": "gpu", "operator": "In", "values": ["T4", "A100"]},
                        {"key": "gpu", "operator": "NotIn", "values": ["T4"]},
                        {"key": "zone", "operator": "Exists"},
                    ]},
                ])),
                json!({"gpu": "A100", "zone": "true"}),
            ),
            (one("gpu", "Odd", json!(["x"])), json!(null)),
        ] {
            assert_eq!(taken(spec.clone(), &node), expected, "{spec}");
        }
    }

    #[test]
    fn a_label_that_a_person_gave_the_node_decides() {
        let node = node(&json!({"gpu": "T4", "zone": "a"}));
        for (spec, expected) in [
            (json!({"nodeSelector": {"gpu": "A100"}}), json!(null)),
            (json!({"nodeSelector": {"gpu": "T4", "disk": "ssd"}}), json!({"gpu": "T4", "disk": "ssd"})),
            (
                affinity(&json!([{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}])),
                json!(null),
            ),
        ] {
            assert_eq!(taken(spec.clone(), &node), expected, "{spec}");
        }
        // What the node took for another pod does not decide.
        let pretended = Labels::from([("gpu".to_owned(), "T4".to_owned())]);
        let given = given_labels(&node, &pretended);
        assert_eq!(json!(given), json!({"zone": "a"}));
        let other = pod(json!({"nodeSelector": {"gpu": "A100"}}));
        assert_eq!(json!(labels(&other, &node, &given)), json!({"gpu": "A100"}));
    }

    #[test]
    fn topology_keys_and_taints_are_named_once() {
        let term = json!([{"topologyKey": "zone", "labelSelector": {}}]);
        let pod = pod(json!({
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
            "tolerations": [
                {"operator": "Exists"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "team", "value": "a"},
            ],
        }));
        assert_eq!(topology_keys(&pod), BTreeSet::from(["rack", "zone"]));
        let taints = ["nvidia.com/gpu:NoSchedule", "team=a"].map(str::to_owned);
        assert_eq!(tolerated_taints(&pod), BTreeSet::from(taints));
    }
}
