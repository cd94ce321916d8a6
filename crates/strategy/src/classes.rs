//! Classes that other objects name: StorageClasses, PriorityClasses and IngressClasses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Strategy, checks, names::NameRule, update::differs};
use crate::Field;

/// The most parameters of a StorageClass, and the most bytes of their keys and values.
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_BYTES: usize = 256 * 1024;

/// The most equal terms that are reported. Otherwise, their number would be quadratic in that of the terms.
const MAX_DUPLICATES: usize = 100;

/// The greatest priority that users may give.
const MAX_PRIORITY: i64 = 1_000_000_000;
/// The classes whose names begin with the reserved prefix, with their priorities.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Returns the class that every cluster has under a name. For an empty name, returns what a pod gets without a class.
pub(super) fn built_in(name: &str) -> Option<Value> {
    let system = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let value = system.or_else(|| name.is_empty().then_some(0))?;
    Some(json!({"value": value, "preemptionPolicy": "PreemptLowerPriority"}))
}

const MAX_CONTROLLER_BYTES: usize = 250;

/// Kinds of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A StorageClass.
    Storage,
    /// A PriorityClass.
    Priority,
    /// An IngressClass.
    Ingress,
}

impl Strategy for Class {
    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        match self {
            Self::Storage => storage(object, live),
            Self::Priority => priority(object, live),
            Self::Ingress => ingress(&object.at("spec"), live.map(|live| &live["spec"])),
        }
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }
}

fn storage(class: &Field<'_>, live: Option<&Value>) {
    let provisioner = class.text_at("provisioner");
    provisioner.not_empty("");
    if !provisioner.as_text().is_empty() {
        let lower = Value::from(provisioner.as_text().to_ascii_lowercase());
        checks::qualified(&provisioner, lower.as_str().unwrap_or_default());
    }
    parameters(&class.at("parameters"));
    let policy = class.at("reclaimPolicy");
    if !policy.as_text().is_empty() {
        policy.one_of(&["Delete", "Retain"]);
    }
    class.at("volumeBindingMode").one_of(&["Immediate", "WaitForFirstConsumer"]);
    topologies(&class.at("allowedTopologies"));
    let Some(live) = live else { return };
    for key in ["parameters", "provisioner", "reclaimPolicy"] {
        if class[key] != live[key] {
            class.at(key).forbidden(format!("updates to {key} are forbidden."));
        }
    }
    if class["volumeBindingMode"] != live["volumeBindingMode"] {
        class.at("volumeBindingMode").invalid(checks::IMMUTABLE);
    }
}

fn parameters(parameters: &Field<'_>) {
    let all = parameters.as_object().into_iter().flatten();
    if parameters.as_object().is_some_and(|all| all.len() > MAX_PARAMETERS) {
        return parameters.too_long(MAX_PARAMETERS);
    }
    let mut size = 0;
    for (key, value) in all {
        if key.is_empty() {
            parameters.invalid_as(Value::from(key.as_str()), "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS_BYTES {
        parameters.too_long(MAX_PARAMETERS_BYTES);
    }
}

fn topologies(terms: &Field<'_>) {
    // kube-apiserver compares each term with those before it, and with as many empty ones as there are terms.
    let mut known: BTreeMap<BTreeMap<&str, BTreeSet<&str>>, usize> =
        BTreeMap::from([(BTreeMap::new(), terms.as_array().map_or(0, Vec::len))]);
    let mut reports = MAX_DUPLICATES;
    for term in terms.clone().each() {
        let mut keys = BTreeMap::new();
        for expression in term.items("matchLabelExpressions") {
            let mut values = BTreeSet::new();
            if expression.list("values").is_empty() {
                expression.at("values").required("");
            }
            for value in expression.items("values") {
                checks::unique(&value, &mut values, value.as_text());
            }
            let key = expression.text_at("key");
            checks::qualified(&key, key.as_text());
            if keys.insert(key.as_text(), values).is_some() {
                key.duplicate();
            }
        }
        let expressions = term.at("matchLabelExpressions");
        let equal = known.entry(keys).or_default();
        for _ in 0..reports.min(*equal) {
            expressions.with(&Value::from("")).duplicate();
        }
        reports = reports.saturating_sub(*equal);
        *equal += 1;
    }
}

fn priority(class: &Field<'_>, live: Option<&Value>) {
    let (name, value) = (class.at("metadata.name"), class.at("value"));
    let number = value.as_i64().unwrap_or(0);
    if let Some(live) = live {
        // an update validates nothing else
        if number != live["value"].as_i64().unwrap_or(0) {
            value.forbidden("may not be changed in an update.");
        }
        if class["preemptionPolicy"] != live["preemptionPolicy"] {
            class.at("preemptionPolicy").invalid(checks::IMMUTABLE);
        }
        return;
    }
    if name.as_text().starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name.as_text());
        let why = match known {
            None => Some(format!("{} is not a known system priority class", name.as_text())),
            Some((name, expected)) if *expected != number => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some((name, _)) if class["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            name.forbidden(format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            ));
        }
    } else if number > MAX_PRIORITY {
        value.forbidden(format!("maximum allowed value of a user defined priority is {MAX_PRIORITY}"));
    }
    let policy = class.at("preemptionPolicy");
    match policy.as_str() {
        Some("") => policy.required(""),
        _ => policy.one_of(&["PreemptLowerPriority", "Never"]),
    }
}

fn ingress(spec: &Field<'_>, live: Option<&Value>) {
    let controller = spec.text_at("controller");
    if controller.as_text().len() > MAX_CONTROLLER_BYTES {
        controller.too_long(MAX_CONTROLLER_BYTES);
    }
    checks::domain_prefixed_path(&controller);
    let parameters = spec.at("parameters");
    if parameters.is_object() {
        checks::typed_reference(&parameters);
        let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
        match scope.as_str() {
            None => scope.required(""),
            Some("Namespace") if namespace.is_null() => {
                namespace.required("`parameters.scope` is set to 'Namespace'");
            }
            Some("Namespace") => namespace.name(NameRule::Label),
            Some("Cluster") if !namespace.is_null() => {
                namespace.forbidden("`parameters.scope` is set to 'Cluster'");
            }
            Some("Cluster") => {}
            Some(_) => scope.unsupported(&["Cluster", "Namespace"]),
        }
    }
    if live.is_some_and(|live| live["controller"] != *controller.value) {
        controller.invalid(checks::IMMUTABLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_provisioners_and_priorities_within_limits() {
        let causes = |class: Class, object: Value, live: Option<&Value>| {
            let found = crate::causes_of(&object, "", |object| class.validate(object, live));
            found.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        let storage = json!({"provisioner": "a.example/p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
        assert_eq!(causes(Class::Storage, storage.clone(), None), [""; 0]);
        let wrong = json!({"reclaimPolicy": "Recycle", "volumeBindingMode": "Later"});
        let fields = ["provisioner", "reclaimPolicy", "volumeBindingMode"];
        assert_eq!(causes(Class::Storage, wrong, None), fields);
        let mut equal = storage.clone();
        equal["allowedTopologies"] = vec![json!({}); 1000].into();
        assert_eq!(causes(Class::Storage, equal, None).len(), MAX_DUPLICATES);
        let mut other = storage.clone();
        other["parameters"] = json!({"k": "v"});
        assert_eq!(causes(Class::Storage, other, Some(&storage)), ["parameters"]);
        let priority = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value});
        assert_eq!(causes(Class::Priority, priority("high", 1_000_000_000), None), [""; 0]);
        assert_eq!(causes(Class::Priority, priority("high", 1_000_000_001), None), ["value"]);
        assert_eq!(causes(Class::Priority, priority("system-mine", 1), None), ["metadata.name"]);
        let system = priority("system-node-critical", 2_000_001_000);
        assert_eq!(causes(Class::Priority, system, None), [""; 0]);
    }
}
