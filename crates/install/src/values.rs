//! The values of an installation, which users can set.

use std::collections::BTreeMap;

use longboat_compose::platform;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The values of an installation, in the form of `--values` and of the Helm chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Values {
    /// The image of this build. All roles use this image.
    pub image: String,
    /// When nodes pull the image: `Always`, `IfNotPresent` or `Never`.
    pub image_pull_policy: PullPolicy,
    /// Secrets with credentials of the image's registry, by name.
    pub image_pull_secrets: Vec<String>,
    /// The number of controllers. One of them reconciles, and all serve webhooks.
    pub replicas: u32,
    /// Requests and limits of the controller's container.
    pub resources: Map<String, Value>,
    /// The namespaces that the controller watches. Its rights are limited to them. If empty, the controller watches all
    /// namespaces and has rights in all of them.
    pub watch_namespaces: Vec<String>,
    /// The namespaces whose Secrets the controller may use. It does not serve services in other namespaces. If empty, the
    /// controller may use the Secrets of all namespaces. Must be empty if `watchNamespaces` is set.
    pub secret_namespaces: Vec<String>,
    /// Whether cert-manager issues the certificate of the webhooks. Otherwise the controller creates its own CA.
    pub cert_manager: bool,
    /// The controller's metrics.
    pub metrics: Metrics,
    /// Monitors and alerts for the Prometheus Operator.
    pub monitoring: Monitoring,
    /// Gateways that Longboat serves itself.
    pub gateway: Gateway,
    /// The picker that the pools of many services share.
    pub shared_picker: SharedPicker,
    /// Prefix of the names of presets.
    pub preset_prefix: String,
    /// The log level: `error`, `warn`, `info` or `debug`, or levels by module.
    pub log_level: String,
    /// Labels of the nodes that the controller may run on.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations for taints of the nodes that the controller may run on.
    pub tolerations: Vec<Value>,
    /// More arguments of the controller.
    pub extra_args: Vec<String>,
    /// The URL at which API servers call the webhooks, `https://HOST:PORT`, for a controller outside of the cluster. If
    /// empty, API servers call the Service of the webhooks.
    pub webhook_url: String,
    /// Whether the namespace is part of the installation.
    pub create_namespace: bool,
    /// Whether the presets are part of the installation. If false, a cluster that comes from another controller keeps its
    /// own presets.
    pub create_presets: bool,
    /// The settings of the platform, ConfigMap `inferenceservice-config`.
    pub platform: PlatformValues,
}

/// The pull policy of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// For each new container.
    Always,
    /// If the node does not have it.
    #[default]
    IfNotPresent,
    /// Never: the node must have it.
    Never,
}

/// The controller's metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Metrics {
    /// Whether the controller serves metrics.
    pub enabled: bool,
    /// Whether metrics are served over HTTPS, only to clients that may `get` `/metrics`. If false, every client that reaches
    /// the port can read them.
    pub secure: bool,
}

/// Monitors and alerts for the Prometheus Operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Monitoring {
    /// Whether monitors and alerts are part of the installation. The cluster must have the Operator's CRDs.
    pub enabled: bool,
    /// Labels by which the Operator selects monitors and alerts.
    pub labels: BTreeMap<String, String>,
}

/// Gateways that Longboat serves itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Gateway {
    /// Whether the installation has the GatewayClass `longboat`, whose Gateways the controller serves with pods of its own
    /// image. The cluster must have the CRDs of the Gateway API. Must be false if `watchNamespaces` is set.
    pub enabled: bool,
}

/// The picker that the pools of many services share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SharedPicker {
    /// Whether the installation has it. Services use it if the setting `longboat.picker` is `shared`. After a change of that setting,
    /// keep it until each service has a picker of its own. Must be false if `watchNamespaces` is set.
    pub enabled: bool,
    /// The number of its pods. Each picks for a part of the pools.
    pub replicas: u32,
}

/// The settings of the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlatformValues {
    /// Whether the ConfigMap is part of the installation. An existing ConfigMap is not changed.
    pub create: bool,
    /// The keys of the ConfigMap. The value of each key is written as a JSON object.
    pub settings: BTreeMap<String, Map<String, Value>>,
}

/// Why values are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A file is not valid YAML.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file or flag.
        origin: String,
        /// The parser's message.
        message: String,
    },
    /// `--set` has no path or no value.
    #[error("`--set {given}`: expected PATH=VALUE, such as replicas=3 or metrics.secure=false")]
    Assignment {
        /// The value of the flag.
        given: String,
    },
    /// A value has the wrong type, or a field does not exist.
    #[error("values: `{path}`: {message}")]
    Type {
        /// The field.
        path: String,
        /// The found and the expected type.
        message: String,
    },
    /// A value cannot work.
    #[error("values: `{path}` is `{value}`: expected {expected}")]
    Value {
        /// The field.
        path: String,
        /// The value.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// Platform settings that the controller would refuse.
    #[error("values: `platform.settings`: {message}")]
    Platform {
        /// The controller's message.
        message: String,
    },
}

// === impl Values ===

impl Values {
    /// The schema by which Helm checks values.
    pub(crate) fn schema() -> Value {
        let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Self>().to_value();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            // Helm creates namespaces itself, and the presets are in another chart.
            properties.retain(|name, _| name != "createNamespace" && name != "createPresets");
            // Helm gives these to every chart that another one contains.
            properties.insert("global".to_owned(), json!({"type": "object"}));
        }
        schema
    }
}

impl Default for Values {
    fn default() -> Self {
        Self {
            image: platform::IMAGE.to_owned(),
            image_pull_policy: PullPolicy::default(),
            image_pull_secrets: Vec::new(),
            replicas: 2,
            resources: object(json!({
                "requests": {"cpu": "100m", "memory": "64Mi"},
                "limits": {"memory": "300Mi"},
            })),
            watch_namespaces: Vec::new(),
            secret_namespaces: Vec::new(),
            cert_manager: false,
            metrics: Metrics::default(),
            monitoring: Monitoring::default(),
            gateway: Gateway::default(),
            shared_picker: SharedPicker::default(),
            preset_prefix: longboat_api::names::DEFAULT_PRESET_PREFIX.to_owned(),
            log_level: "info".to_owned(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            extra_args: Vec::new(),
            webhook_url: String::new(),
            create_namespace: true,
            create_presets: true,
            platform: PlatformValues::default(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { enabled: true, secure: true }
    }
}

impl Default for SharedPicker {
    fn default() -> Self {
        Self { enabled: false, replicas: 2 }
    }
}

impl Default for PlatformValues {
    /// The settings of KServe, without those that only other kinds of KServe need.
    fn default() -> Self {
        let objects: Vec<Value> = serde_saphyr::from_multiple(platform::OBJECTS).unwrap_or_default();
        let settings = objects.iter().find(|object| object["kind"] == "ConfigMap");
        let settings = settings.and_then(|settings| settings["data"].as_object()).into_iter().flatten();
        let settings = settings
            .filter_map(|(key, text)| Some((key.clone(), serde_json::from_str(text.as_str()?).ok()?)))
            .collect();
        Self { create: true, settings }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
