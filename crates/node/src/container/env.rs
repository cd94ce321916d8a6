//! The environment of a container, as its manifest describes it.
//!
//! Kubernetes: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables. The result still has the paths of the manifest:
//! [`super::paths`] rewrites them after all references were expanded.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, Pod, ResourceFieldSelector};
use longboat_quantity::Quantity;

use super::expand::expand;
use super::sources::{SourceKey, SourceKind, Sources};

/// Facts about a running pod that its API object does not have yet.
#[derive(Debug, Clone)]
pub(crate) struct PodFacts {
    pub(crate) pod_ip: String,
    pub(crate) host_ip: String,
    pub(crate) node_name: String,
}

/// Why an environment cannot be built; shown as `CreateContainerConfigError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvError {
    #[error("{} {name:?} not found", kind.lower_case())]
    Missing { kind: SourceKind, name: String },
    #[error("couldn't find key {key} in {} {namespace}/{name}", kind.name())]
    MissingKey { kind: SourceKind, namespace: String, name: String, key: String },
    #[error("unsupported fieldPath: {0}")]
    FieldPath(String),
    #[error("unsupported container resource: {0}")]
    Resource(String),
    #[error("container {0} not found")]
    Container(String),
}

/// Returns the ConfigMaps and Secrets that the container's environment needs.
pub(crate) fn wanted(container: &Container) -> Vec<SourceKey> {
    let whole =
        container.env_from.iter().flatten().flat_map(whole_sources).map(|(kind, name, _)| (kind, name));
    let sources = container.env.iter().flatten().filter_map(|var| key_source(var.value_from.as_ref()?));
    let all = whole.chain(sources.map(|source| (source.kind, source.name)));
    all.map(|(kind, name)| (kind, name.to_owned())).collect()
}

/// Returns the objects of an `envFrom`, and whether they are optional.
fn whole_sources(from: &EnvFromSource) -> impl Iterator<Item = (SourceKind, &str, Option<bool>)> {
    let map = from.config_map_ref.as_ref().map(|map| (SourceKind::ConfigMap, &*map.name, map.optional));
    let secret = from.secret_ref.as_ref().map(|secret| (SourceKind::Secret, &*secret.name, secret.optional));
    map.into_iter().chain(secret)
}

/// A key of a ConfigMap or a Secret.
struct KeySource<'a> {
    kind: SourceKind,
    name: &'a str,
    key: &'a str,
    optional: Option<bool>,
}

/// Returns the key of a `valueFrom`, if it is one.
fn key_source(source: &EnvVarSource) -> Option<KeySource<'_>> {
    if let Some(map) = &source.config_map_key_ref {
        let (kind, optional) = (SourceKind::ConfigMap, map.optional);
        return Some(KeySource { kind, name: &map.name, key: &map.key, optional });
    }
    let secret = source.secret_key_ref.as_ref()?;
    let (kind, optional) = (SourceKind::Secret, secret.optional);
    Some(KeySource { kind, name: &secret.name, key: &secret.key, optional })
}

/// Returns the container's variables without duplicates. `services` are the service variables. Variables of the manifest
/// override them, and may refer to them.
pub(crate) fn resolve(
    pod: &Pod,
    container: &Container,
    sources: &Sources,
    facts: &PodFacts,
    services: &[(String, String)],
) -> Result<BTreeMap<String, String>, EnvError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut env = BTreeMap::new();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (kind, name, optional) in whole_sources(from) {
            match sources.get(kind, name) {
                Some(source) => {
                    env.extend(
                        source.data.iter().map(|(key, value)| (format!("{prefix}{key}"), text(value))),
                    );
                }
                None if optional == Some(true) => {}
                None => return Err(EnvError::Missing { kind, name: name.to_owned() }),
            }
        }
    }
    for var in container.env.iter().flatten() {
        let value = match (&var.value, &var.value_from) {
            // As in the kubelet, only a value that is not empty hides a source.
            (Some(value), _) if !value.is_empty() => Some(expand(value, |name| {
                env.get(name)
                    .map(String::as_str)
                    .or_else(|| services.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()))
            })),
            (_, Some(source)) => from_source(pod, container, source, sources, facts, namespace)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            env.insert(var.name.clone(), value);
        }
    }
    for (key, value) in services {
        env.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Ok(env)
}

/// Returns the value of a `valueFrom`, or `None` if the source is optional and missing.
fn from_source(
    pod: &Pod,
    container: &Container,
    source: &EnvVarSource,
    sources: &Sources,
    facts: &PodFacts,
    namespace: &str,
) -> Result<Option<String>, EnvError> {
    if let Some(field) = &source.field_ref {
        return field_value(pod, &field.field_path, facts).map(Some);
    }
    if let Some(resource) = &source.resource_field_ref {
        return resource_value(pod, Some(container), resource).map(Some);
    }
    let Some(KeySource { kind, name, key, optional }) = key_source(source) else {
        return Ok(Some(String::new()));
    };
    match sources.get(kind, name).map(|source| source.data.get(key)) {
        Some(Some(value)) => Ok(Some(text(value))),
        _ if optional == Some(true) => Ok(None),
        Some(None) => {
            let (namespace, name, key) = (namespace.to_owned(), name.to_owned(), key.to_owned());
            Err(EnvError::MissingKey { kind, namespace, name, key })
        }
        None => Err(EnvError::Missing { kind, name: name.to_owned() }),
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// Returns the value of a downward API field, for variables and volume files. Only volume files may ask for all labels or
/// annotations.
pub(crate) fn field_value(pod: &Pod, path: &str, facts: &PodFacts) -> Result<String, EnvError> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => meta.labels.as_ref(),
            "metadata.annotations" => meta.annotations.as_ref(),
            _ => return Err(EnvError::FieldPath(path.to_owned())),
        };
        return Ok(text(map.and_then(|map| map.get(key))));
    }
    Ok(match path {
        "metadata.name" => text(meta.name.as_ref()),
        "metadata.namespace" => text(meta.namespace.as_ref()),
        "metadata.uid" => text(meta.uid.as_ref()),
        "metadata.labels" => format_map(meta.labels.as_ref()),
        "metadata.annotations" => format_map(meta.annotations.as_ref()),
        "spec.nodeName" | "spec.host" => facts.node_name.clone(),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "spec.restartPolicy" => text(spec.and_then(|spec| spec.restart_policy.as_ref())),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.clone(),
        "status.podIP" | "status.podIPs" => facts.pod_ip.clone(),
        _ => return Err(EnvError::FieldPath(path.to_owned())),
    })
}

/// Splits `metadata.labels['app']` into `metadata.labels` and `app`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// Formats a map as `key="value"` lines, as in a downward API volume.
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<_> = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

/// Returns the value of a resource field. Like Kubernetes, this uses the node's capacity if the container has no limit.
pub(crate) fn resource_value(
    pod: &Pod,
    container: Option<&Container>,
    selector: &ResourceFieldSelector,
) -> Result<String, EnvError> {
    let container = match (&selector.container_name, container) {
        (Some(name), _) if !name.is_empty() => pod
            .spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
            .find(|candidate| candidate.name == *name)
            .ok_or_else(|| EnvError::Container(name.clone()))?,
        (_, Some(container)) => container,
        (_, None) => return Err(EnvError::Container(String::new())),
    };
    let resources = container.resources.as_ref();
    let (map, name) = match selector.resource.split_once('.') {
        Some(("limits", name)) => (resources.and_then(|r| r.limits.as_ref()), name),
        Some(("requests", name)) => (resources.and_then(|r| r.requests.as_ref()), name),
        _ => return Err(EnvError::Resource(selector.resource.clone())),
    };
    let stated = map
        .and_then(|map| map.get(name))
        .and_then(|quantity| Quantity::parse(&quantity.0))
        .map(Quantity::nano);
    let limits = selector.resource.starts_with("limits.");
    let value = match (stated, name) {
        (Some(value), _) => value,
        (None, "cpu") if limits => i128::from(crate::registration::cpus()) * 1_000_000_000,
        (None, "memory") if limits => i128::from(crate::registration::memory_bytes()) * 1_000_000_000,
        (None, _) => 0,
    };
    let divisor = selector.divisor.as_ref().and_then(|divisor| Quantity::parse(&divisor.0));
    Ok(divided(value, divisor))
}

/// Divides an amount in billionths by the divisor, and rounds up. A missing or zero divisor means 1.
fn divided(nano: i128, divisor: Option<Quantity>) -> String {
    let divisor = divisor.map(Quantity::nano).filter(|divisor| *divisor > 0).unwrap_or(1_000_000_000);
    (nano / divisor + i128::from(nano % divisor > 0)).to_string()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn resource_fields_are_divided_and_rounded_up() {
        let quotient = |value: &str, divisor: &str| {
            divided(Quantity::parse(value).unwrap().nano(), Quantity::parse(divisor))
        };
        assert_eq!(quotient("1500m", "1"), "2");
        assert_eq!(quotient("1500m", "1m"), "1500");
        assert_eq!(quotient("1Gi", "1Mi"), "1024");
        assert_eq!(quotient("1Gi", "0"), "1073741824");
    }

    fn facts() -> PodFacts {
        PodFacts { pod_ip: "127.64.0.1".into(), host_ip: "127.0.0.1".into(), node_name: "n".into() }
    }

    fn pod() -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}},
            "spec": {"serviceAccountName": "sa", "containers": []}}),
        )
        .unwrap()
    }

    fn env(env: &Value) -> Result<BTreeMap<String, String>, EnvError> {
        let container: Container = serde_json::from_value(json!({"name": "main", "env": env,
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "gone", "optional": true}}],
            "resources": {"limits": {"cpu": "1500m"}}}))
        .unwrap();
        let mut map: ConfigMap = serde_json::from_value(json!({"data": {"k": "v"}})).unwrap();
        map.metadata.name = Some("cm".into());
        let mut secret = Secret {
            data: Some([("s".to_owned(), ByteString(b"hidden".to_vec()))].into()),
            ..Secret::default()
        };
        secret.metadata.name = Some("sec".into());
        resolve(
            &pod(),
            &container,
            &Sources::of(vec![map], vec![secret]),
            &facts(),
            &[("SVC_SERVICE_HOST".into(), "127.9.9.9".into())],
        )
    }

    #[test]
    fn variables_come_from_values_references_and_fields() {
        let env = env(&json!([
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)$(P_k)$(LATER)$(SVC_SERVICE_HOST)"},
            {"name": "LATER", "value": "x"},
            {"name": "EMPTY"},
            {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "CM", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}},
            {"name": "SEC", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "s"}}},
            {"name": "OPT", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "no", "optional": true}}},
        ]))
        .unwrap();
        let expected: BTreeMap<String, String> = [
            ("A", "1"),
            ("B", "1v$(LATER)127.9.9.9"),
            ("CM", "v"),
            ("CPU", "2"),
            ("EMPTY", ""),
            ("IP", "127.64.0.1"),
            ("LABEL", "b"),
            ("LATER", "x"),
            ("NS", "ns"),
            ("P_k", "v"),
            ("SEC", "hidden"),
            ("SVC_SERVICE_HOST", "127.9.9.9"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
        assert_eq!(env, expected);
    }

    #[test]
    fn missing_references_are_named_as_the_kubelet_names_them() {
        let error = |value: Value| env(&json!([{"name": "X", "valueFrom": value}])).unwrap_err().to_string();
        assert_eq!(
            error(json!({"configMapKeyRef": {"name": "no", "key": "k"}})),
            "configmap \"no\" not found"
        );
        assert_eq!(
            error(json!({"secretKeyRef": {"name": "sec", "key": "no"}})),
            "couldn't find key no in Secret ns/sec"
        );
        assert_eq!(error(json!({"fieldRef": {"fieldPath": "status.x"}})), "unsupported fieldPath: status.x");
    }
}
