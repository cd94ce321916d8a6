//! Deployments, ReplicaSets, StatefulSets, DaemonSets.

use serde_json::{Value, json};

use super::{Strategy, checks, names::NameRule, pod, selector::selects, sets, storage, update::keep_labels};
use crate::Field;

/// Controllers of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// A Deployment.
    Deployment,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// A DaemonSet.
    DaemonSet,
}

impl Strategy for Workload {
    fn refused_if_empty(&self, value: &Value) -> Option<(&'static str, &'static str)> {
        (!selects(&value["spec"]["selector"], &Value::Null)).then_some(("/spec/template/metadata", "labels"))
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = match self {
            Self::Deployment => json!({}),
            Self::ReplicaSet => json!({"replicas": 0}),
            Self::StatefulSet => json!({"replicas": 0, "availableReplicas": 0}),
            Self::DaemonSet => {
                value["metadata"]["annotations"][sets::TEMPLATES] = Value::from("1");
                json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
                    "numberReady": 0})
            }
        };
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        if *self == Self::DaemonSet {
            sets::count_templates(value, live);
        }
    }

    fn prepare_status(&self, value: &mut Value, live: &Value) {
        if *self == Self::Deployment {
            keep_labels(value, live);
        }
        if value.get("status").is_none() {
            value["status"] = json!({});
        }
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let spec = object.at("spec");
        let selector = spec.at("selector");
        match self {
            // the selector matches nothing, which a later check reports
            Self::DaemonSet if selector.is_null() => {}
            _ if selector.is_null() => selector.required(""),
            _ if !is_empty(&selector) => {}
            Self::StatefulSet => selector.invalid("empty selector is invalid for statefulset"),
            Self::DaemonSet => selector.invalid("empty selector is invalid for daemonset"),
            _ => selector.invalid("empty selector is invalid for deployment"),
        }
        let before = object.count();
        checks::selector(&selector);
        let broken = object.count() > before;
        let labels = spec.at("template.metadata.labels");
        if broken && *self != Self::DaemonSet {
            selector.invalid("invalid label selector");
        } else if !broken && (selector.is_null() || !selects(&selector, &labels)) {
            labels.invalid("`selector` does not match template `labels`");
        }
        checks::not_negative(&spec.at("replicas"));
        checks::not_negative(&spec.at("minReadySeconds"));
        // a StatefulSet may have a negative limit: it then keeps all revisions and only gets a warning
        if *self != Self::StatefulSet {
            checks::not_negative(&spec.at("revisionHistoryLimit"));
        }
        match self {
            Self::StatefulSet => {
                sets::stateful(&spec);
                // they do not change later
                if live.is_none() {
                    spec.at("serviceName").optional_name(NameRule::Label);
                    spec.items("volumeClaimTemplates")
                        .for_each(|claim| storage::claim_spec(&claim.at("spec")));
                }
            }
            Self::DaemonSet => sets::daemon(&spec),
            Self::Deployment => {
                let deadline = spec.at("progressDeadlineSeconds");
                checks::not_negative(&deadline);
                let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
                if deadline.as_i64().is_some_and(|deadline| deadline <= ready) {
                    deadline.invalid("must be greater than minReadySeconds");
                }
            }
            Self::ReplicaSet => {}
        }
        let deadline = spec.at("template.spec.activeDeadlineSeconds");
        if !deadline.is_null() && matches!(self, Self::Deployment | Self::ReplicaSet) {
            deadline.forbidden("activeDeadlineSeconds in ReplicaSet is not Supported");
        }
        if !broken || *self == Self::DaemonSet {
            validate_template(&spec.at("template").with(&with_claims(&spec)), &["Always"]);
        }
        if *self == Self::Deployment {
            validate_strategy(&spec.at("strategy"));
        }
        let Some(live) = live else { return };
        if *self != Self::StatefulSet {
            if live["spec"]["selector"] != *selector.value {
                selector.invalid(checks::IMMUTABLE);
            }
        } else if fixed_parts(&spec) != fixed_parts(&live["spec"]) {
            spec.forbidden(
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                 'minReadySeconds' are forbidden",
            );
        }
    }

    fn template(&self, value: &Value) -> Option<(&'static str, Value)> {
        Some(("spec.template", with_claims(&value["spec"])))
    }

    fn validate_status(&self, object: &Field<'_>) {
        let status = object.at("status");
        for key in [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ] {
            checks::not_negative(&status.at(key));
        }
        let count = |key: &str| status[key].as_i64().unwrap_or(0);
        for (key, bound, why) in [
            ("updatedReplicas", "replicas", "cannot be greater than status.replicas"),
            ("readyReplicas", "replicas", "cannot be greater than status.replicas"),
            ("availableReplicas", "replicas", "cannot be greater than status.replicas"),
            ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"),
        ] {
            if count(key) > count(bound) {
                status.at(key).invalid_as(count(key), why);
            }
        }
    }

    fn warnings(&self, value: &Value, live: Option<&Value>) -> Vec<String> {
        if live.is_some_and(|live| live["spec"] == value["spec"]) {
            return Vec::new();
        }
        let mut warnings = match self {
            Self::Deployment | Self::ReplicaSet if live.is_none() => {
                Vec::from_iter(checks::host_warning(value, "Pod names and hostnames"))
            }
            _ => Vec::new(),
        };
        warnings.extend(pod::warnings(&value["spec"]["template"], "spec.template."));
        warnings
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        // the Deployment controller also reacts to annotations
        let notes = |object: &Value| object["metadata"]["annotations"].clone();
        value["spec"] != live["spec"] || (*self == Self::Deployment && notes(value) != notes(live))
    }
}

/// The spec of a StatefulSet without the parts that an update may change.
fn fixed_parts(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for key in [
        "replicas",
        "template",
        "updateStrategy",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
    ] {
        spec[key] = Value::Null;
    }
    spec
}

/// The template with a volume for each claim template of a StatefulSet, which its containers may mount.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
    let claims = claims.map(|claim| {
        let name = &claim["metadata"]["name"];
        json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
    });
    let mut volumes = template["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    for claim in claims {
        // A pod's claim replaces a volume of the same name.
        volumes.retain(|volume| volume["name"] != claim["name"]);
        volumes.push(claim);
    }
    if !volumes.is_empty() {
        template["spec"]["volumes"] = Value::Array(volumes);
    }
    template
}

/// Reports all validation errors of a pod template.
pub(super) fn validate_template(template: &Field<'_>, policies: &[&str]) {
    // kube-apiserver omits a part of these paths.
    let [labels, annotations] = ["labels", "annotations"]
        .map(|key| template.at(&format!("metadata.{key}")).named(format!("{}.{key}", template.path)));
    checks::labels(&labels);
    checks::annotations(&annotations);
    let spec = template.at("spec");
    pod::profiles_in_annotations(&annotations, &spec);
    pod::validate_spec(&spec);
    if !spec.list("ephemeralContainers").is_empty() {
        spec.at("ephemeralContainers").forbidden("ephemeral containers not allowed in pod template");
    }
    let policy = spec.text_at("restartPolicy");
    if policies.contains(&policy.as_text()) {
        return;
    }
    if policy.as_text() == "Always" {
        // the policy may be a default, so the error says that a value is required
        let known: Vec<String> = policies.iter().map(|policy| format!("\"{policy}\"")).collect();
        policy.required(format!("valid values: {}", known.join(", ")));
    } else {
        policy.unsupported(policies);
    }
}

fn validate_strategy(strategy: &Field<'_>) {
    let rolling = strategy.at("rollingUpdate");
    let unavailable = rolling.at("maxUnavailable");
    let before = strategy.count();
    checks::percent(&unavailable, true);
    checks::percent(&rolling.at("maxSurge"), false);
    if strategy.count() > before {
        return;
    }
    let kind = strategy.text_at("type");
    match kind.as_text() {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"),
        "RollingUpdate" => {
            let zero = |value: &Value| *value == 0 || *value == "0%";
            if zero(&unavailable) && zero(&rolling["maxSurge"]) {
                unavailable.invalid("may not be 0 when `maxSurge` is 0");
            }
        }
        other => {
            // The error shows the value in Go's field order.
            let shown = format!(
                "{{\"Type\":\"{other}\",\"RollingUpdate\":{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}}}",
                *unavailable, rolling["maxSurge"]
            );
            let shown = if rolling.is_null() {
                format!("{{\"Type\":\"{other}\",\"RollingUpdate\":null}}")
            } else {
                shown
            };
            strategy.unsupported_as(shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn is_empty(selector: &Value) -> bool {
    selector.is_object()
        && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
}
