//! The admission plugins Priority and RuntimeClass of kube-apiserver, as far as they concern the priority and the overhead of new
//! pods.
//!
//! A pod whose class is unknown is left alone, although the plugins refuse it: manifests that were made for a cluster name
//! classes of that cluster.

use serde_json::{Value, json};

use super::{Pod, Strategy, classes, defaults, update::put};
use crate::{Cause, causes_of};

/// Sets the priority and the preemption policy of a new pod from its PriorityClass. `find` returns the class of a name, and the
/// default class for an empty name.
///
/// # Errors
/// Why the plugin refuses the pod.
pub fn prioritise(pod: &mut Value, find: impl FnOnce(&str) -> Option<Value>) -> Result<(), Cause> {
    let spec = &mut pod["spec"];
    let name = spec["priorityClassName"].as_str().unwrap_or_default();
    let Some(class) = find(name).or_else(|| classes::built_in(name)) else { return Ok(()) };
    if name.is_empty() && class["metadata"]["name"].is_string() {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
    }
    for (field, of_class, what) in [
        ("priority", "value", "integer value of priority"),
        ("preemptionPolicy", "preemptionPolicy", "string value of PreemptionPolicy"),
    ] {
        let (given, computed) = (&spec[field], &class[of_class]);
        if !given.is_null() && !computed.is_null() && given != computed {
            let [given, computed] = [given, computed].map(shown);
            let message = format!(
                "the {what} ({given}) must not be provided in pod spec; priority admission controller computed {computed} from \
                 the given PriorityClass name"
            );
            return Err(forbidden(field, message));
        }
        if !computed.is_null() {
            put(spec, field, Some(computed.clone()));
        }
    }
    Ok(())
}

/// Refuses a new pod with an overhead that no RuntimeClass can have given to it.
///
/// # Errors
/// Why the plugin refuses the pod.
pub fn overhead(pod: &Value) -> Result<(), Cause> {
    let spec = &pod["spec"];
    if spec["overhead"].is_null() || spec["runtimeClassName"].is_string() {
        return Ok(());
    }
    let message = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(forbidden("overhead", message.to_owned()))
}

/// Returns why the pods of a valid template at `path` would be refused. They get more defaults than a template.
pub(crate) fn causes_of_pods(template: &Value, path: &str) -> Vec<Cause> {
    let mut pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    defaults::fill_in("core.v1.Pod", &mut pod);
    let mut causes = Vec::from_iter(prioritise(&mut pod, |_| None).err());
    Pod.prepare_create(&mut pod);
    causes.extend(causes_of(&pod, "", |pod| Pod.validate(pod, None)));
    causes.extend(overhead(&pod).err());
    for cause in &mut causes {
        cause.field = format!("{path}.{}", cause.field);
    }
    causes
}

fn forbidden(field: &str, message: String) -> Cause {
    Cause { reason: "Forbidden", message, field: format!("spec.{field}") }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_priority_of_its_class() {
        let found = |spec: Value| {
            let mut pod = json!({"spec": spec});
            let class = |name: &str| {
                let class = json!({"metadata": {"name": "low"}, "value": 5, "preemptionPolicy": "Never"});
                (name == "low").then_some(class)
            };
            let refused = prioritise(&mut pod, class).err().map(|cause| cause.field);
            let spec = &pod["spec"];
            (spec["priority"].as_i64(), spec["preemptionPolicy"].as_str().map(str::to_owned), refused)
        };
        let with = |priority: i64, policy: &str| (Some(priority), Some(policy.to_owned()), None);
        assert_eq!(found(json!({})), with(0, "PreemptLowerPriority"));
        assert_eq!(found(json!({"priority": 0})), with(0, "PreemptLowerPriority"));
        assert_eq!(found(json!({"priorityClassName": "low"})), with(5, "Never"));
        let system = json!({"priorityClassName": "system-node-critical"});
        assert_eq!(found(system), with(2_000_001_000, "PreemptLowerPriority"));
        assert_eq!(found(json!({"priorityClassName": "unknown", "priority": 7})), (Some(7), None, None));
        assert_eq!(found(json!({"priority": 5})).2.as_deref(), Some("spec.priority"));
        let other = json!({"priorityClassName": "low", "preemptionPolicy": "PreemptLowerPriority"});
        assert_eq!(found(other).2.as_deref(), Some("spec.preemptionPolicy"));
    }

    #[test]
    fn only_a_runtime_class_gives_a_pod_overhead() {
        let is_refused = |spec: Value| overhead(&json!({"spec": spec})).is_err();
        assert!(is_refused(json!({"overhead": {"cpu": "1"}})));
        assert!(!is_refused(json!({"overhead": {"cpu": "1"}, "runtimeClassName": "vm"})));
        assert!(!is_refused(json!({})));
    }

    #[test]
    fn the_pods_of_a_template_get_requests_that_the_template_lacks() {
        let template = |limit: &str| {
            let container = json!({"name": "main", "image": "a", "resources": {"limits": {"cpu": limit}}});
            let mut template =
                json!({"spec": {"resources": {"requests": {"cpu": "2"}}, "containers": [container]}});
            defaults::fill_in("core.v1.PodTemplateSpec", &mut template);
            causes_of_pods(&template, "spec.template")
                .into_iter()
                .map(|cause| cause.field)
                .collect::<Vec<_>>()
        };
        assert_eq!(template("2"), [""; 0]);
        assert_eq!(template("4"), ["spec.template.spec.resources.requests[cpu]"]);
    }
}
