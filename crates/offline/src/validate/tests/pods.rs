//! Pods that an API server would refuse, although it accepts what they are made from.

use super::{finding_lines, finding_messages, service};

#[test]
fn resources_of_a_pod_are_at_least_those_of_its_containers() {
    let pod = |resources: &str, container: &str| {
        finding_lines(&service(&format!(
            "  template:\n    resources: {resources}\n    containers:\n    - name: main\n      resources: {container}\n"
        )))
    };
    assert_eq!(
        pod("{requests: {cpu: '1'}}", "{requests: {cpu: '4'}}"),
        ["8:28 error spec.template.resources.requests.cpu FieldValueInvalid"]
    );
    // Its pods request as much as they may have.
    assert_eq!(
        pod("{requests: {cpu: '1'}}", "{limits: {cpu: '4'}}"),
        ["8:28 error spec.template.resources.requests.cpu FieldValueInvalid"]
    );
    assert_eq!(
        pod("{limits: {memory: 1Gi}}", "{limits: {memory: 4Gi}}"),
        ["11:28 error spec.template.containers[name=main].resources.limits.memory FieldValueInvalid"]
    );
    assert_eq!(pod("{limits: {memory: 64Gi}}", "{limits: {memory: 4Gi}}"), [""; 0]);
}

#[test]
fn admission_plugins_refuse_pods_with_a_priority_or_an_overhead_of_their_own() {
    let template = |line: &str| {
        finding_messages(&service(&format!("  template:\n    containers: [{{name: main}}]\n    {line}\n")))
    };
    let refused = "(an API server would refuse the pods of Deployment one-kserve at spec.template.spec";
    let why = "the integer value of priority (100) must not be provided in pod spec; priority admission controller computed 0 from \
               the given PriorityClass name";
    assert_eq!(
        template("priority: 100"),
        [format!("9 error spec.template.priority: {why} {refused}.priority)")]
    );
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!(
        template("overhead: {cpu: '1'}"),
        [format!("9 error spec.template.overhead: {why} {refused}.overhead)")]
    );
    // A cluster may have these classes.
    let note = "4 note spec: refers to objects that are not in these files:";
    assert_eq!(template("priorityClassName: high"), [format!("{note} PriorityClass high")]);
    assert_eq!(template("runtimeClassName: vm"), [format!("{note} RuntimeClass vm")]);

    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: one}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      \
               containers: [{name: main, image: a}]\n      preemptionPolicy: Never\n";
    let why = "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed \
               PreemptLowerPriority from the given PriorityClass name (an API server would refuse the pods)";
    assert_eq!(finding_messages(job), [format!("9 error spec.template.spec.preemptionPolicy: {why}")]);
}

#[test]
fn a_fault_that_comes_from_the_planner_is_at_the_element_that_it_is_planned_for() {
    let init = "  template:\n    containers: [{name: main}]\n    initContainers:\n    - name: storage-initializer\n      resources: {limits: {memory: '1'}}\n";
    assert_eq!(
        finding_lines(&service(init)),
        [
            "11:7 error spec.template.initContainers[name=storage-initializer].resources.requests FieldValueInvalid"
        ]
    );
}

#[test]
fn annotations_name_containers_and_profiles_and_a_former_name_of_a_field_is_valid() {
    let annotation = |profile: &str| {
        let key = "container.apparmor.security.beta.kubernetes.io/main";
        finding_lines(&service(&format!("  annotations: {{{key}: {profile}}}\n")))
    };
    assert_eq!(
        annotation("foo"),
        [
            r#"7:17 error spec.annotations["container.apparmor.security.beta.kubernetes.io/main"] FieldValueInvalid"#
        ]
    );
    assert_eq!(annotation("unconfined"), [""; 0]);
    let host = "  template:\n    containers:\n    - name: main\n      env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.host}}}]\n";
    assert_eq!(finding_lines(&service(host)), [""; 0]);
}

#[test]
fn labels_of_a_namespace_name_a_policy_of_pod_security() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: one\n  labels:\n    pod-security.kubernetes.io/enforce: restrictd\n";
    assert_eq!(
        finding_lines(namespace),
        ["6:5 error metadata.labels[pod-security.kubernetes.io/enforce] FieldValueInvalid"]
    );
}
