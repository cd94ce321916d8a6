//! Pods that no node gets: those whose node affinity no node satisfies, and those that wait for somebody to remove a gate.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::finding::Advice;

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    spec.server_pods()
        .flat_map(|(path, pod)| affinity(path, pod).into_iter().chain(gates(path, pod)))
        .collect()
}

fn affinity(path: &str, pod: &PodSpec) -> Vec<Advice> {
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let path = format!(
        "{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    );
    let terms = required.iter().flat_map(|required| &required.node_selector_terms).enumerate();
    terms.flat_map(|(at, term)| of_term(&format!("{path}[{at}]"), term)).collect()
}

fn of_term(path: &str, term: &NodeSelectorTerm) -> Vec<Advice> {
    let expressions = term.match_expressions.iter().flatten();
    if expressions.clone().chain(term.match_fields.iter().flatten()).next().is_none() {
        let message = "is empty, and an empty term matches no node";
        let hint = "write an expression, or remove the term";
        return vec![Advice::warning(path, "NoNodeMatches", message, hint)];
    }
    let all = expressions.enumerate().filter_map(|(at, expression)| {
        let value = uncountable(expression)?;
        Some(Advice::warning(
            format!("{path}.matchExpressions[{at}].values[0]"),
            "NoNodeMatches",
            format!(
                "is \"{value}\", and {} compares whole numbers only: this term matches no node",
                expression.operator
            ),
            "write a whole number, in the unit of the label: labels have no quantities, such as 80Gi",
        ))
    });
    all.collect()
}

/// The value of a comparison, if it is no number.
fn uncountable(expression: &NodeSelectorRequirement) -> Option<&str> {
    let value = expression.values.as_ref()?.first()?;
    (matches!(expression.operator.as_str(), "Gt" | "Lt") && value.parse::<i64>().is_err()).then_some(value)
}

fn gates(path: &str, pod: &PodSpec) -> Option<Advice> {
    let names: Vec<&str> = pod.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        Advice::warning(
            format!("{path}.schedulingGates"),
            "SchedulingGated",
            format!("keeps each pod waiting until somebody removes the gates from it: {}", names.join(", ")),
            "remove them, unless a controller on the cluster does that",
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    fn with(fields: &str) -> Vec<String> {
        finding_lines(&service("a", &format!("  model: {{uri: 'hf://a/b'}}\n  template:\n    {fields}\n")))
    }

    #[test]
    fn a_term_that_no_node_matches_is_warned_about() {
        let terms = |terms: &str| {
            with(&format!(
                "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}}"
            ))
        };
        let path = "spec.template.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
        assert_eq!(
            terms("{}"),
            [format!(
                "7:100 warning {path}: is empty, and an empty term matches no node (write an expression, or remove the term)"
            )]
        );
        let compared = |value: &str| {
            terms(&format!("{{matchExpressions: [{{key: m, operator: Gt, values: ['{value}']}}]}}"))
        };
        let found = compared("80Gi");
        let start = format!(
            "warning {path}.matchExpressions[0].values[0]: is \"80Gi\", and Gt compares whole numbers only"
        );
        assert!(found.len() == 1 && found[0].contains(&start), "{found:#?}");
        assert_eq!(compared("80"), [""; 0]);
        assert_eq!(terms("{matchExpressions: [{key: m, operator: In, values: [80Gi]}]}"), [""; 0]);
        assert_eq!(terms("{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}"), [""; 0]);
    }

    #[test]
    fn a_gate_that_somebody_has_to_remove_is_warned_about() {
        assert_eq!(
            with("schedulingGates: [{name: example.com/quota}]"),
            [
                "7:5 warning spec.template.schedulingGates: keeps each pod waiting until somebody removes the gates from it: \
                 example.com/quota (remove them, unless a controller on the cluster does that)"
            ]
        );
    }
}
