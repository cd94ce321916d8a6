//! Compares objects as the API server sees them: a missing value, null and, in most fields, an empty value are equal;
//! quantities compare by value.

use serde::Serialize;
use serde_json::Value;

use super::quantity;

/// Fields in which a missing value differs from false, zero or an empty object. Kubernetes' pods, autoscalers and routes make
/// this distinction too: `runAsUser: 0` is root, and `idleReplicaCount: 0` scales an idle workload to zero.
const OPTIONAL: [&str; 38] = [
    "absoluteTimeout",
    "activeDeadlineSeconds",
    "allowCredentials",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "cooldownPeriod",
    "defaultMode",
    "denominator",
    "enableServiceLinks",
    "expirationSeconds",
    "fsGroup",
    "hostProcess",
    "hostUsers",
    "idleReplicaCount",
    "initialCooldownPeriod",
    "labelSelector",
    "maxReplicaCount",
    "minDomains",
    "minReplicaCount",
    "minReplicas",
    "mode",
    "namespaceSelector",
    "numerator",
    "percent",
    "pollingInterval",
    "priority",
    "privileged",
    "readOnlyRootFilesystem",
    "replicas",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "stabilizationWindowSeconds",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "weight",
];

/// Whether two values mean the same to the API server.
pub(crate) fn same<T: PartialEq + Serialize>(a: &T, b: &T) -> bool {
    // Most values are equal as they stand.
    a == b
        || match (serde_json::to_value(a), serde_json::to_value(b)) {
            (Ok(a), Ok(b)) => equal(&a, &b, ""),
            _ => false,
        }
}

pub(super) fn equal(a: &Value, b: &Value, key: &str) -> bool {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            left.iter().all(|(key, value)| equal(value, right.get(key).unwrap_or(&Value::Null), key))
                && right.iter().all(|(key, value)| left.contains_key(key) || says_nothing(key, value))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| equal(a, b, key))
        }
        (Value::String(left), Value::String(right)) => left == right || quantity::same(left, right, key),
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Null, value) | (value, Value::Null) => says_nothing(key, value),
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

/// Whether the value means the same as a missing field.
fn says_nothing(key: &str, value: &Value) -> bool {
    value.is_null() || (is_empty(value) && !OPTIONAL.contains(&key))
}

/// Whether the API server may leave out a field with this value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.iter().all(|(key, value)| says_nothing(key, value)),
    }
}
