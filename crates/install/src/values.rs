//! The values of an installation, which users can set.

use std::collections::BTreeMap;

use longboat_api::annotations::STORAGE_SECRET_NAME;
use longboat_compose::platform;
use longboat_key::Namespace;
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
    /// Merges layers onto the defaults, in order. Objects are merged and everything else is replaced, as in Helm. A layer is
    /// a file, given by name and text.
    ///
    /// # Errors
    ///
    /// [`ValuesError`] about the first problem.
    pub fn read(files: &[(String, String)], assignments: &[String]) -> Result<Self, ValuesError> {
        let mut all = serde_json::to_value(Self::default())
            .map_err(|error| ValuesError::Type { path: ".".to_owned(), message: error.to_string() })?;
        for (origin, text) in files {
            let syntax = |message| ValuesError::Syntax { origin: origin.clone(), message };
            let layer: Value = serde_saphyr::from_str(text).map_err(|error| syntax(error.to_string()))?;
            match layer {
                Value::Null => {}
                Value::Object(_) => merge(&mut all, layer),
                _ => return Err(syntax("expected a mapping of values".to_owned())),
            }
        }
        for given in assignments {
            let wrong = || ValuesError::Assignment { given: given.clone() };
            let (path, value) = given.split_once('=').ok_or_else(wrong)?;
            if path.is_empty() || path.split('.').any(str::is_empty) {
                return Err(wrong());
            }
            let syntax = |message| ValuesError::Syntax { origin: format!("`--set {given}`"), message };
            let value: Value = match value {
                "" => Value::String(String::new()),
                text => serde_saphyr::from_str(text).map_err(|error| syntax(error.to_string()))?,
            };
            let layer = path.rsplit('.').fold(value, |inner, key| json!({key: inner}));
            merge(&mut all, layer);
        }
        if all.get("namespace").is_some() {
            return Err(ValuesError::Type {
                path: "namespace".to_owned(),
                message: "the namespace is not a value: use --namespace".to_owned(),
            });
        }
        let values: Self = serde_path_to_error::deserialize(all).map_err(|error| ValuesError::Type {
            path: error.path().to_string(),
            message: error.into_inner().to_string(),
        })?;
        values.check()?;
        Ok(values)
    }

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

    /// Whether these layers set the image. The default image works only if it has been published.
    pub fn choose_an_image(files: &[(String, String)], assignments: &[String]) -> bool {
        let in_file = |(_, text): &(String, String)| {
            serde_saphyr::from_str::<Value>(text).is_ok_and(|layer| layer["image"].is_string())
        };
        let is_given = |given: &String| given.split_once('=').is_some_and(|(path, _)| path == "image");
        files.iter().any(in_file) || assignments.iter().any(is_given)
    }

    fn check(&self) -> Result<(), ValuesError> {
        let wrong = |path: &str, value: &str, expected| {
            Err(ValuesError::Value { path: path.to_owned(), value: value.to_owned(), expected })
        };
        if self.image.is_empty() || self.image.contains(char::is_whitespace) {
            return wrong("image", &self.image, "an image, such as registry.example/longboat:v1");
        }
        for (index, namespace) in self.watch_namespaces.iter().enumerate() {
            if !is_label(namespace) {
                return wrong(&format!("watchNamespaces[{index}]"), namespace, NAMESPACE);
            }
        }
        for (index, namespace) in self.secret_namespaces.iter().enumerate() {
            if !is_label(namespace) {
                return wrong(&format!("secretNamespaces[{index}]"), namespace, NAMESPACE);
            }
        }
        if let (Some(namespace), false) = (self.secret_namespaces.first(), self.watch_namespaces.is_empty()) {
            return wrong(
                "secretNamespaces[0]",
                namespace,
                "an empty list if watchNamespaces is set, because watchNamespaces already limits the right \
                 to read Secrets",
            );
        }
        for (index, name) in self.image_pull_secrets.iter().enumerate() {
            if name.is_empty() {
                return wrong(&format!("imagePullSecrets[{index}]"), name, "the name of a Secret");
            }
        }
        let prefix = self.preset_prefix.trim_end_matches(['-', '.']);
        if !self.preset_prefix.is_empty() && !prefix.split('.').all(is_label) {
            return wrong(
                "presetPrefix",
                &self.preset_prefix,
                "lower-case letters, digits, `-` and `.`, as in `kserve-`",
            );
        }
        if self.log_level.is_empty() {
            return wrong("logLevel", &self.log_level, "error, warn, info or debug");
        }
        let host = self.webhook_url.strip_prefix("https://");
        if !self.webhook_url.is_empty() && host.is_none_or(|host| host.is_empty() || host.contains('/')) {
            return wrong(
                "webhookUrl",
                &self.webhook_url,
                "https://HOST:PORT without a path, or an empty string",
            );
        }
        if self.metrics.enabled && self.metrics.secure && !self.watch_namespaces.is_empty() {
            return wrong(
                "metrics.secure",
                "true",
                "false if watchNamespaces is set, because the check of tokens needs rights in the whole \
                 cluster",
            );
        }
        if self.gateway.enabled && !self.watch_namespaces.is_empty() {
            return wrong(
                "gateway.enabled",
                "true",
                "false if watchNamespaces is set, because a GatewayClass belongs to the whole cluster",
            );
        }
        if self.shared_picker.enabled && !self.watch_namespaces.is_empty() {
            return wrong(
                "sharedPicker.enabled",
                "true",
                "false if watchNamespaces is set, because the shared picker has rights in the whole cluster",
            );
        }
        let ingress = self.platform.settings.get("ingress").and_then(|all| all.get("kserveIngressGateway"));
        let gateway = ingress.and_then(Value::as_str).filter(|gateway| !gateway.is_empty());
        let is_key = |text: &str| {
            text.split_once('/')
                .is_some_and(|(namespace, name)| is_label(namespace) && name.split('.').all(is_label))
        };
        // The controller reads a name alone as one in its own namespace, where hardly anybody has a Gateway.
        if let Some(gateway) = gateway.filter(|gateway| !is_key(gateway)) {
            let expected = "NAMESPACE/NAME of a Gateway, such as gateways/models";
            return wrong("platform.settings.ingress.kserveIngressGateway", gateway, expected);
        }
        let data = crate::platform::data(self);
        let platform = longboat_compose::Platform::parse(&data, Namespace("kserve"))
            .map_err(|error| ValuesError::Platform { message: error.to_string() })?;
        if platform.shared_picker && !self.shared_picker.enabled {
            return wrong(
                "sharedPicker.enabled",
                "false",
                "true, because platform.settings.longboat.picker is shared",
            );
        }
        Ok(())
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
        let settings = [
            (
                "ingress",
                json!({
                    "ingressGateway": "kserve/kserve-ingress-gateway",
                    "kserveIngressGateway": "kserve/kserve-ingress-gateway",
                    "urlScheme": "http",
                }),
            ),
            (
                "storageInitializer",
                json!({
                    "cpuRequest": "100m",
                    "cpuLimit": "1",
                    "memoryRequest": "100Mi",
                    "enableModelcar": true,
                    "cpuModelcar": "10m",
                    "memoryModelcar": "15Mi",
                    "uidModelcar": 1010,
                }),
            ),
            (
                "credentials",
                json!({
                    "storageSpecSecretName": "storage-config",
                    "storageSecretNameAnnotation": STORAGE_SECRET_NAME,
                    "gcs": {"gcsCredentialFileName": "gcloud-application-credentials.json"},
                    "s3": {
                        "s3AccessKeyIDName": "AWS_ACCESS_KEY_ID",
                        "s3SecretAccessKeyName": "AWS_SECRET_ACCESS_KEY",
                    },
                }),
            ),
        ];
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), object(value))).collect();
        Self { create: true, settings }
    }
}

/// Describes valid names of namespaces, for errors.
pub(crate) const NAMESPACE: &str = "the name of a namespace: at most 63 lower-case letters, digits and `-`";

/// Whether this is a DNS label (RFC 1123).
pub(crate) fn is_label(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Merges objects: null removes a key, and everything else replaces the value.
fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                if value.is_null() {
                    below.remove(&key);
                } else {
                    merge(below.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (below, above) => *below = above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Values, String> {
        Values::read(&[("values.yaml".to_owned(), text.to_owned())], &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn layers_are_merged_key_by_key_and_later_ones_win() {
        let files = [
            ("a".to_owned(), "replicas: 3\nmetrics: {secure: false}\nnodeSelector: {a: b}".to_owned()),
            ("b".to_owned(), "nodeSelector: {c: d}\nresources: {limits: null}".to_owned()),
        ];
        let values = Values::read(&files, &["replicas=1".to_owned(), "image=r/l:1".to_owned()]).unwrap();
        assert_eq!((values.replicas, values.image.as_str()), (1, "r/l:1"));
        assert_eq!(values.metrics, Metrics { enabled: true, secure: false });
        assert_eq!(values.node_selector.len(), 2);
        assert_eq!(values.resources.keys().collect::<Vec<_>>(), ["requests"]);
        let untouched = Values::read(&[("empty".to_owned(), "# nothing\n".to_owned())], &[]).unwrap();
        assert_eq!(untouched, Values::default());
    }

    #[test]
    fn an_image_is_chosen_in_a_file_or_by_a_flag_even_if_it_is_the_default_one() {
        let file = |text: &str| vec![("values.yaml".to_owned(), text.to_owned())];
        assert!(Values::choose_an_image(&file("image: r/l:1"), &[]));
        assert!(Values::choose_an_image(&[], &[format!("image={}", platform::IMAGE)]));
        assert!(!Values::choose_an_image(
            &file("imagePullPolicy: Always"),
            &["imagePullPolicy=Never".to_owned()]
        ));
        assert!(!Values::choose_an_image(&[], &[]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path_its_value_and_what_belongs_there() {
        let cases = [
            ("replicas: two", "values: `replicas`: invalid type: string \"two\", expected u32"),
            (
                "metrics: {port: 1}",
                "values: `metrics.port`: unknown field `port`, expected `enabled` or `secure`",
            ),
            (
                "watchNamespaces: [a, B]",
                "values: `watchNamespaces[1]` is `B`: expected the name of a namespace",
            ),
            (
                "secretNamespaces: ['']",
                "values: `secretNamespaces[0]` is ``: expected the name of a namespace",
            ),
            (
                "{watchNamespaces: [a], secretNamespaces: [a], metrics: {secure: false}}",
                "values: `secretNamespaces[0]` is `a`: expected an empty list if watchNamespaces is set",
            ),
            (
                "{watchNamespaces: [a], gateway: {enabled: true}, metrics: {secure: false}}",
                "values: `gateway.enabled` is `true`: expected false if watchNamespaces is set",
            ),
            (
                "{watchNamespaces: [a], sharedPicker: {enabled: true}, metrics: {secure: false}}",
                "values: `sharedPicker.enabled` is `true`: expected false if watchNamespaces is set",
            ),
            (
                "platform: {settings: {longboat: {picker: shared}}}",
                "values: `sharedPicker.enabled` is `false`: expected true",
            ),
            (
                "platform: {settings: {ingress: {kserveIngressGateway: nogateway}}}",
                "values: `platform.settings.ingress.kserveIngressGateway` is `nogateway`: expected NAMESPACE/NAME of a Gateway",
            ),
            (
                "platform: {settings: {ingress: {kserveIngressGateway: a/b/c}}}",
                "values: `platform.settings.ingress.kserveIngressGateway` is `a/b/c`: expected NAMESPACE/NAME of a Gateway",
            ),
            ("webhookUrl: http://a", "values: `webhookUrl` is `http://a`: expected https://HOST:PORT"),
            ("image: ''", "values: `image` is ``: expected an image"),
            ("namespace: a", "values: `namespace`: the namespace is not a value: use --namespace"),
            ("platform: {settings: {ingress: {ingressGateway: ''}}}", "values: `platform.settings`: "),
            ("[1]", "values.yaml: expected a mapping of values"),
            ("imagePullPolicy: Sometimes", "values: `imagePullPolicy`: unknown variant `Sometimes`"),
        ];
        for (text, expected) in cases {
            let message = of(text).unwrap_err();
            assert!(message.starts_with(expected), "{text}: {message}");
        }
        let error = Values::read(&[], &["replicas".to_owned()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "`--set replicas`: expected PATH=VALUE, such as replicas=3 or metrics.secure=false"
        );
    }
}
