//! Deployments, ReplicaSets, StatefulSets, DaemonSets.

use serde_json::{Value, json};

use super::{Strategy, checks, pod, sets, storage, update::keep_labels};
use crate::Cause;

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
        (!matches(&value["spec"]["selector"], &Value::Null)).then_some(("/spec/template/metadata", "labels"))
    }

    fn prepare_create(&self, value: &mut Value) {
        prepare_create(*self, value);
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        if *self == Self::DaemonSet {
            sets::count_templates(value, live);
        }
    }

    fn prepare_status(&self, value: &mut Value, live: &Value) {
        keep_labels(value, live);
        if value.get("status").is_none() {
            value["status"] = json!({});
        }
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(*self, value, live)
    }

    fn validate_status(&self, value: &Value) -> Vec<Cause> {
        validate_status(value)
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        let mut warnings = match self {
            Self::Deployment | Self::ReplicaSet => {
                Vec::from_iter(checks::host_warning(value, "Pod names and hostnames"))
            }
            Self::StatefulSet | Self::DaemonSet => Vec::new(),
        };
        warnings.extend(pod::warnings(&value["spec"]["template"]["spec"], "spec.template.spec"));
        warnings
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        // the Deployment controller also reacts to annotations
        let notes = |object: &Value| object["metadata"]["annotations"].clone();
        value["spec"] != live["spec"] || (*self == Self::Deployment && notes(value) != notes(live))
    }
}

fn prepare_create(kind: Workload, value: &mut Value) {
    let status = match kind {
        Workload::Deployment => json!({}),
        Workload::ReplicaSet => json!({"replicas": 0}),
        Workload::StatefulSet => json!({"replicas": 0, "availableReplicas": 0}),
        Workload::DaemonSet => {
            json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
            "numberReady": 0})
        }
    };
    if kind == Workload::DaemonSet {
        value["metadata"]["annotations"][sets::TEMPLATES] = Value::from("1");
    }
    value["status"] = status;
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

fn validate(kind: Workload, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    let mut selector_causes = Vec::new();
    let selector = &spec["selector"];
    checks::selector(selector, "spec.selector", &mut selector_causes);
    let broken = !selector_causes.is_empty();
    if selector.is_null() && kind == Workload::DaemonSet {
        // the selector matches nothing, which a later check reports
    } else if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else if is_empty(selector) {
        causes.push(Cause::invalid(
            "spec.selector",
            selector,
            match kind {
                Workload::StatefulSet => "empty selector is invalid for statefulset",
                Workload::DaemonSet => "empty selector is invalid for daemonset",
                _ => "empty selector is invalid for deployment",
            },
        ));
    }
    causes.extend(selector_causes);
    if broken {
        causes.push(Cause::invalid("spec.selector", selector, "invalid label selector"));
    } else {
        let labels = &spec["template"]["metadata"]["labels"];
        let is_open = selector.is_null();
        if !matches(selector, labels) || is_open {
            causes.push(Cause::invalid(
                "spec.template.metadata.labels",
                labels,
                "`selector` does not match template `labels`",
            ));
        }
    }
    checks::not_negative(&spec["replicas"], "spec.replicas", &mut causes);
    for key in ["minReadySeconds", "revisionHistoryLimit"] {
        // a StatefulSet may have a negative limit: it then keeps all revisions and only gets a warning
        if kind != Workload::StatefulSet || key != "revisionHistoryLimit" {
            checks::not_negative(&spec[key], &format!("spec.{key}"), &mut causes);
        }
    }
    match kind {
        Workload::StatefulSet => {
            sets::stateful(spec, &mut causes);
            // they do not change later
            let claims = if live.is_none() { checks::items(spec, "volumeClaimTemplates") } else { &[] };
            for (index, claim) in claims.iter().enumerate() {
                let path = format!("spec.volumeClaimTemplates[{index}].spec");
                storage::claim_spec(&claim["spec"], &path, &mut causes);
            }
        }
        Workload::DaemonSet => sets::daemon(spec, &mut causes),
        Workload::Deployment => {
            let deadline = &spec["progressDeadlineSeconds"];
            checks::not_negative(deadline, "spec.progressDeadlineSeconds", &mut causes);
            let ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
            if deadline.as_i64().is_some_and(|deadline| deadline <= ready) {
                let detail = "must be greater than minReadySeconds";
                causes.push(Cause::invalid("spec.progressDeadlineSeconds", deadline, detail));
            }
        }
        Workload::ReplicaSet => {}
    }
    if !spec["template"]["spec"]["activeDeadlineSeconds"].is_null()
        && matches!(kind, Workload::Deployment | Workload::ReplicaSet)
    {
        causes.push(Cause::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            "activeDeadlineSeconds in ReplicaSet is not Supported",
        ));
    }
    if !broken {
        let template = with_claims(spec);
        causes.extend(validate_template(&template, "spec.template", &["Always"]));
    }
    if kind == Workload::Deployment {
        causes.extend(validate_strategy(&spec["strategy"]));
    }
    if let Some(live) = live {
        if kind != Workload::StatefulSet && live["spec"]["selector"] != *selector {
            causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
        }
        if kind == Workload::StatefulSet {
            let frozen = |object: &Value| {
                let mut spec = object["spec"].clone();
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
            };
            if frozen(value) != frozen(live) {
                causes.push(Cause::forbidden(
                    "spec",
                    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                     'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                     'minReadySeconds' are forbidden",
                ));
            }
        }
    }
    causes
}

/// Returns all validation errors of a pod template.
pub(super) fn validate_template(template: &Value, path: &str, policies: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    checks::labels(&template["metadata"]["labels"], &format!("{path}.labels"), &mut causes);
    checks::annotations(
        &template["metadata"]["annotations"],
        &format!("{path}.metadata.annotations"),
        &mut causes,
    );
    causes.extend(pod::validate_spec(&template["spec"], &format!("{path}.spec")));
    if !checks::items(&template["spec"], "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        causes.push(Cause::forbidden(format!("{path}.spec.ephemeralContainers"), detail));
    }
    let policy = template["spec"]["restartPolicy"].as_str().unwrap_or_default();
    let own = format!("{path}.spec.restartPolicy");
    if policy == "Always" && !policies.contains(&policy) {
        // the policy may be a default, so the error says that a value is required
        let known: Vec<String> = policies.iter().map(|policy| format!("\"{policy}\"")).collect();
        causes.push(Cause::required(own, format!("valid values: {}", known.join(", "))));
    } else if !policies.contains(&policy) {
        causes.push(Cause::unsupported(own, &Value::from(policy), policies));
    }
    causes
}

fn validate_strategy(strategy: &Value) -> Vec<Cause> {
    let path = "spec.strategy";
    let rolling = &strategy["rollingUpdate"];
    let mut causes = Vec::new();
    for key in ["maxUnavailable", "maxSurge"] {
        let own = format!("{path}.rollingUpdate.{key}");
        checks::percent(&rolling[key], &own, key == "maxUnavailable", &mut causes);
    }
    if !causes.is_empty() {
        return causes;
    }
    match strategy["type"].as_str().unwrap_or_default() {
        "Recreate" if !rolling.is_null() => vec![Cause::forbidden(
            format!("{path}.rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        )],
        "RollingUpdate" => {
            let zero = |value: &Value| *value == 0 || *value == "0%";
            if zero(&rolling["maxUnavailable"]) && zero(&rolling["maxSurge"]) {
                vec![Cause::invalid(
                    format!("{path}.rollingUpdate.maxUnavailable"),
                    &rolling["maxUnavailable"],
                    "may not be 0 when `maxSurge` is 0",
                )]
            } else {
                Vec::new()
            }
        }
        "Recreate" => Vec::new(),
        other => vec![Cause::unsupported(
            format!("{path}.type"),
            &Value::from(other),
            &["Recreate", "RollingUpdate"],
        )],
    }
}

fn validate_status(value: &Value) -> Vec<Cause> {
    let status = &value["status"];
    let mut causes = Vec::new();
    let numbers = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ];
    for key in numbers {
        checks::not_negative(&status[key], &format!("status.{key}"), &mut causes);
    }
    let count = |key: &str| status[key].as_i64().unwrap_or(0);
    for (key, bound, why) in [
        ("updatedReplicas", "replicas", "cannot be greater than status.replicas"),
        ("readyReplicas", "replicas", "cannot be greater than status.replicas"),
        ("availableReplicas", "replicas", "cannot be greater than status.replicas"),
        ("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas"),
    ] {
        if count(key) > count(bound) {
            causes.push(Cause::invalid(format!("status.{key}"), &Value::from(count(key)), why));
        }
    }
    causes
}

fn is_empty(selector: &Value) -> bool {
    selector.is_object()
        && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
}

/// Whether a label selector object selects these labels. A missing selector selects nothing.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str());
    exact
        && selector["matchExpressions"].as_array().into_iter().flatten().all(|expression| {
            let found = label(expression["key"].as_str().unwrap_or_default());
            let listed =
                || expression["values"].as_array().into_iter().flatten().any(|v| v.as_str() == found);
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => found.is_some() && listed(),
                "NotIn" => found.is_none() || !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::matches;

    #[test]
    fn selectors_match_labels() {
        let labels = json!({"a": "1", "b": "2"});
        let is_match = |selector: Value| matches(&selector, &labels);
        assert!(is_match(json!({})));
        assert!(is_match(json!({"matchLabels": {"a": "1"}})));
        assert!(!is_match(json!({"matchLabels": {"a": "2"}})));
        assert!(is_match(
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]})
        ));
        assert!(!is_match(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]})));
        assert!(is_match(json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]})));
        assert!(!is_match(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]})));
    }
}
