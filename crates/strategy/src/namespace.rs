//! Namespaces.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::NOT_DISTINCT,
    names::{NAMESPACE_NAME, NameRule},
    update::put,
};
use crate::{Field, causes_of};

/// How labels of Pod Security begin.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// Namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

impl Strategy for Namespace {
    fn default(&self, value: &mut Value) {
        if let Some(name) = value["metadata"]["name"].as_str().map(str::to_owned) {
            value["metadata"]["labels"][NAMESPACE_NAME] = Value::from(name);
        }
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"phase": "Active"});
        let mut finalizers = value["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            finalizers.push(Value::from("kubernetes"));
            value["spec"]["finalizers"] = Value::Array(finalizers);
        }
        self.default(value);
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        // only the `finalize` subresource changes the finalizers in the spec
        if let Some(finalizers) = live["spec"].get("finalizers") {
            value["spec"]["finalizers"] = finalizers.clone();
        }
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let wrong = causes_of(object, "", pod_security);
        // An update may keep labels that were wrong before.
        if live.is_none_or(|live| causes_of(live, "", pod_security) != wrong) {
            object.causes().extend(wrong);
        }
        for finalizer in object.items("spec.finalizers") {
            if finalizer.as_text() != "kubernetes" && !finalizer.as_text().contains('/') {
                finalizer.named("spec.finalizers").invalid(NOT_DISTINCT);
            }
        }
    }

    fn delays_deletion(&self, value: &Value) -> bool {
        value["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn terminate(&self, value: &mut Value) {
        value["status"]["phase"] = Value::from("Terminating");
        put(&mut value["metadata"], "deletionGracePeriodSeconds", None);
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn metadata_validations(&self) -> usize {
        4
    }
}

/// Refuses labels from which the admission plugin PodSecurity can read no policy.
fn pod_security(namespace: &Field<'_>) {
    for (key, value) in namespace.entries("metadata.labels") {
        match key.strip_prefix(POD_SECURITY) {
            Some("enforce" | "audit" | "warn") if !LEVELS.contains(&value.as_text()) => {
                value.invalid(format!("must be one of {}", LEVELS.join(", ")));
            }
            Some("enforce-version" | "audit-version" | "warn-version") if !is_version(value.as_text()) => {
                value.invalid("must be \"latest\" or \"v1.x\"");
            }
            _ => {}
        }
    }
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.").unwrap_or_default();
    // Without a sign, and without leading zeros.
    text == "latest" || minor.parse::<u32>().is_ok_and(|number| number.to_string() == minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_pod_security_name_a_level_and_a_version() {
        let namespace = |key: &str, value: &str| {
            let key = format!("{POD_SECURITY}{key}");
            json!({"metadata": {"labels": {key: value}}})
        };
        let refused = |object: &Value, live: Option<&Value>| {
            !causes_of(object, "", |object| Namespace.validate(object, live)).is_empty()
        };
        for (key, value) in [
            ("enforce", "restricted"),
            ("warn-version", "v1.34"),
            ("audit-version", "latest"),
            ("other", "x"),
        ] {
            assert!(!refused(&namespace(key, value), None), "{key}: {value}");
        }
        for (key, value) in [
            ("enforce", "restrictd"),
            ("audit", ""),
            ("warn-version", "1.34"),
            ("warn-version", "v1.034"),
            ("warn-version", "v2.0"),
            ("enforce-version", "v1.+1"),
        ] {
            let wrong = namespace(key, value);
            assert!(refused(&wrong, None) && !refused(&wrong, Some(&wrong)), "{key}: {value}");
            assert!(refused(&wrong, Some(&namespace(key, "x"))), "{key}: {value}");
        }
    }
}
