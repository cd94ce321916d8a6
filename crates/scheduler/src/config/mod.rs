//! The `EndpointPickerConfig` document.

use serde::Deserialize;
use serde_json::Value;

use crate::{error::ConfigError, reading};

mod data_layer;
mod load;
mod mistakes;
pub(crate) mod nearest;
mod place;
mod references;
mod versions;

pub use data_layer::{CustomMetric, DataLayer, EngineConfig, MetricSpec, MetricsSource};
pub use load::{LoadedConfig, load};
pub use mistakes::mistakes;
pub use place::place;
pub use references::Parser;
pub use versions::LlmdRelease;
use versions::WrittenVersion;

/// The most plugins, declared or used in one profile.
const MAX_PLUGINS: usize = 512;
/// The most profiles.
const MAX_PROFILES: usize = 64;
/// The most entries of `featureGates`.
const MAX_GATES: usize = 64;

/// The whole document, in its newest version. Unknown fields are refused, as upstream does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointPickerConfig {
    /// `llm-d.ai/v1`, or a former version.
    #[serde(default)]
    pub api_version: String,
    /// `EndpointPickerConfig`.
    #[serde(default)]
    pub kind: String,
    /// `name`, `name=true` or `name=false`.
    #[serde(default, deserialize_with = "nullable")]
    pub feature_gates: Vec<String>,
    /// The plugin instances.
    #[serde(default, deserialize_with = "nullable")]
    pub plugins: Vec<PluginSpec>,
    /// The profiles that use them.
    #[serde(default, deserialize_with = "nullable")]
    pub scheduling_profiles: Vec<ProfileSpec>,
    /// Where endpoint attributes come from.
    pub data_layer: Option<DataLayerSpec>,
    /// How requests wait, where the feature gate `flowControl` is on.
    pub flow_control: Option<Value>,
    /// How requests are parsed.
    pub request_handler: Option<RequestHandlerSpec>,
    /// How its author wrote it.
    #[serde(skip)]
    pub(crate) written: WrittenVersion,
}

/// One plugin instance.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSpec {
    /// Its name; the type when not given.
    pub name: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub plugin_type: String,
    /// The parameters of its type.
    pub parameters: Option<Value>,
}

impl PluginSpec {
    /// The name, which defaults to the type.
    pub fn name(&self) -> &str {
        match &self.name {
            Some(name) if !name.is_empty() => name,
            _ => &self.plugin_type,
        }
    }
}

/// A list of plugins that together pick an endpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    /// Its name.
    pub name: String,
    /// Its filters, scorers and picker; filters run in this order.
    #[serde(default, deserialize_with = "nullable")]
    pub plugins: Vec<ProfilePlugin>,
}

/// A plugin's use in a profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfilePlugin {
    /// The plugin's name.
    pub plugin_ref: String,
    /// How much a scorer counts; 1 when not given.
    pub weight: Option<f64>,
}

/// A reference to a plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginReference {
    /// The plugin's name.
    pub plugin_ref: String,
}

/// `requestHandler`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestHandlerSpec {
    /// Whether the priority of a request is written into its body.
    pub propagate_priority: Option<bool>,
    /// In the order in which they are tried.
    #[serde(default, deserialize_with = "nullable")]
    pub parsers: Vec<PluginReference>,
}

/// `dataLayer`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataLayerSpec {
    /// Whether the usual metrics are scraped without being asked for; true when not given.
    pub inject_defaults: Option<bool>,
    /// Sources and what is extracted from them.
    #[serde(default, deserialize_with = "nullable")]
    pub sources: Vec<SourceSpec>,
    /// Where endpoints come from instead of Kubernetes.
    pub discovery: Option<DiscoverySpec>,
    /// State that replicas share.
    pub cross_replica: Option<CrossReplicaSpec>,
}

/// `dataLayer.crossReplica`. llm-d has only a syncer that shares nothing with other processes, so all fields are checked, and
/// have no further effect.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrossReplicaSpec {
    /// The plugin that shares the state.
    pub syncer_plugin_ref: Option<String>,
    /// How often it is shared.
    pub sync_interval: Option<String>,
    /// How long one message may take.
    pub publish_timeout: Option<String>,
}

const CROSS_REPLICA: &str = "dataLayer.crossReplica";
const PEERS: &str = "dataLayer.discovery.peers";

// === impl CrossReplicaSpec ===

impl CrossReplicaSpec {
    fn syncer(&self) -> Option<&str> {
        self.syncer_plugin_ref.as_deref().filter(|name| !name.is_empty())
    }
}

/// A data source.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceSpec {
    /// The source plugin's name.
    pub plugin_ref: String,
    /// The extractor plugins.
    #[serde(default, deserialize_with = "nullable")]
    pub extractors: Vec<PluginReference>,
}

/// `dataLayer.discovery`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscoverySpec {
    /// The plugin that finds endpoints.
    pub endpoints: Option<PluginReference>,
    /// The plugin that finds the other replicas of the picker, which nothing reads.
    pub peers: Option<PluginReference>,
}

impl EndpointPickerConfig {
    /// Reads a document. An empty text gives the empty configuration, which means the defaults.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut value: Value =
            serde_saphyr::from_str(text).map_err(|error| ConfigError::Syntax(in_our_words(&error)))?;
        let head = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (head("apiVersion"), head("kind"));
        // Another version has other fields, so this error comes before those about fields.
        let is_other = value.is_object() && (kind != versions::KIND || !versions::is_known(&api_version));
        if is_other
            && ["apiVersion", "kind"].iter().all(|field| value.get(field).is_none_or(Value::is_string))
        {
            return Err(ConfigError::Kind { api_version, kind, expected: versions::NEWEST });
        }
        let written = WrittenVersion::convert(&api_version, &mut value)?;
        let config = reading::read(&value)
            .map_err(|error| written.rename(ConfigError::unreadable_parameter(&error)))?;
        let config = Self { written, ..config };
        config.check_sizes()?;
        check_gates("featureGates", &config.feature_gates)?;
        Ok(config)
    }

    /// Adds feature gates of the command line. They count more than those of the document.
    ///
    /// # Errors
    /// An unknown feature gate.
    pub(crate) fn add_gates(&mut self, gates: &[String]) -> Result<(), ConfigError> {
        check_gates("--feature-gates", gates)?;
        self.feature_gates.extend_from_slice(gates);
        Ok(())
    }

    /// Names the fields of an error as the author of the document wrote them.
    pub(crate) fn as_written(&self, error: ConfigError) -> ConfigError {
        self.written.rename(error)
    }

    /// Warnings about a version and fields that are read, but are to be replaced.
    pub fn deprecations(&self) -> Vec<String> {
        self.written.deprecations()
    }

    /// Returns why a release of llm-d's picker does not start with a document that this picker reads.
    pub fn refusal_by(&self, release: LlmdRelease) -> Option<ConfigError> {
        self.written.refusal_by(release)
    }

    /// Refuses lists that are too long: references to plugins are looked up one by one, and every unknown name is compared
    /// with all known ones.
    fn check_sizes(&self) -> Result<(), ConfigError> {
        let lists = [
            ("featureGates".to_owned(), MAX_GATES, self.feature_gates.len()),
            ("plugins".to_owned(), MAX_PLUGINS, self.plugins.len()),
            ("schedulingProfiles".to_owned(), MAX_PROFILES, self.scheduling_profiles.len()),
        ];
        let profiles = self.scheduling_profiles.iter().enumerate().map(|(index, profile)| {
            (format!("schedulingProfiles[{index}].plugins"), MAX_PLUGINS, profile.plugins.len())
        });
        match lists.into_iter().chain(profiles).find(|(_, most, found)| found > most) {
            Some((path, most, found)) => Err(ConfigError::TooMany { path, most, found }),
            None => Ok(()),
        }
    }

    /// Warnings about fields that are accepted but have no effect, for the operator. Each begins with the path of its field.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let only_detector = |flow: &Value| {
            flow.as_object().is_some_and(|flow| flow.keys().all(|key| key == "saturationDetector"))
        };
        if !self.is_enabled("flowControl")
            && self.flow_control.as_ref().is_some_and(|flow| !only_detector(flow))
        {
            warnings.push(
                "flowControl: no effect, because its feature gate is off: add \"flowControl\" to featureGates".to_owned(),
            );
        }
        let discovery = self.data_layer.as_ref().and_then(|layer| layer.discovery.as_ref());
        let from_file = discovery.is_some_and(|discovery| discovery.endpoints.is_some());
        if from_file && self.is_enabled("flowControl") {
            warnings.extend(self.without_priorities());
        }
        if let Some(shared) = self.data_layer.as_ref().and_then(|layer| layer.cross_replica.as_ref()) {
            warnings.extend(self.without_replicas(shared));
        }
        if discovery.and_then(|discovery| discovery.peers.as_ref()).is_some() {
            let path = self.written.path(PEERS.to_owned());
            warnings
                .push(format!("{path}: no effect: as in llm-d, nothing reads the replicas that it finds"));
        }
        warnings
    }

    /// Warnings about settings for the state that replicas share.
    fn without_replicas(&self, shared: &CrossReplicaSpec) -> Vec<String> {
        let fields = [
            ("syncerPluginRef", shared.syncer().is_some()),
            ("syncInterval", shared.sync_interval.is_some()),
            ("publishTimeout", shared.publish_timeout.is_some()),
        ];
        let warning = |(field, _): (&str, bool)| {
            let path = self.written.path(format!("{CROSS_REPLICA}.{field}"));
            format!(
                "{path}: no effect: the only syncer of llm-d, local-syncer, shares nothing between replicas of the picker"
            )
        };
        fields.into_iter().filter(|(_, is_set)| *is_set).map(warning).collect()
    }

    /// Warnings about parts of flow control that need priorities, where no InferenceObjective gives requests one.
    fn without_priorities(&self) -> Vec<String> {
        let flow = self.flow_control.as_ref();
        let field = |name: &str| flow.and_then(|flow| flow.get(name)).filter(|value| !value.is_null());
        let mut bands = field("priorityBands").and_then(Value::as_array).into_iter().flatten();
        let other = bands.any(|band| band.get("priority").and_then(Value::as_i64) != Some(0));
        let evicts = field("enableEviction").and_then(Value::as_bool) == Some(true);
        let parts = [
            ("flowControl.priorityBands other than that of priority 0", other),
            ("flowControl.defaultNegativePriorityBand", field("defaultNegativePriorityBand").is_some()),
            ("flowControl.enableEviction", evicts),
        ];
        let unused = parts.iter().filter(|(_, is_there)| *is_there);
        let warning = |(part, _): &(&str, bool)| {
            format!(
                "{part}: no effect, because endpoints come from a file: no InferenceObjective is read, and every request has \
                 priority 0"
            )
        };
        unused.map(warning).collect()
    }

    /// Whether a feature gate is on. The last entry counts; without one the gate is off.
    pub(crate) fn is_enabled(&self, gate: &str) -> bool {
        let mut settings = self.feature_gates.iter().rev().filter_map(|entry| entry.strip_prefix(gate));
        settings.find_map(|value| match value {
            "" | "=true" => Some(true),
            "=false" => Some(false),
            _ => None,
        }) == Some(true)
    }

    /// Whether the priority of a request is written into its body.
    pub fn propagates_priority(&self) -> bool {
        self.request_handler.as_ref().and_then(|handler| handler.propagate_priority) == Some(true)
    }

    /// The names of the declared plugins.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(PluginSpec::name)
    }

    /// A declared plugin by name.
    pub fn plugin(&self, name: &str) -> Option<&PluginSpec> {
        self.plugins.iter().find(|plugin| plugin.name() == name)
    }
}

/// Refuses feature gates that are unknown, or have neither of the two values.
fn check_gates(from: &'static str, gates: &[String]) -> Result<(), ConfigError> {
    let Some(index) = gates.iter().position(|gate| !is_known_gate(gate)) else { return Ok(()) };
    if let Some((name, value)) = gates[index].split_once('=').filter(|(name, _)| GATES.contains(name)) {
        let problem = format!("feature gate {name} is \"{value}\": expected true or false");
        return Err(ConfigError::FeatureGate { from, index, problem });
    }
    let unknown = gates.iter().filter(|gate| !is_known_gate(gate));
    let hinted: Vec<String> =
        unknown.map(|gate| format!("\"{gate}\"{}", nearest::hint(GATES, gate))).collect();
    let problem = format!("unknown feature gate {}; known are {}", hinted.join(", "), GATES.join(" and "));
    Err(ConfigError::FeatureGate { from, index, problem })
}

fn is_known_gate(gate: &str) -> bool {
    let name = gate.strip_suffix("=true").or_else(|| gate.strip_suffix("=false")).unwrap_or(gate);
    GATES.contains(&name)
}

/// The feature gates.
const GATES: [&str; 2] = ["flowControl", "haPopulateNonLeaderDatastore"];

/// Says where a text is not YAML and why, without the options of the library that read it.
fn in_our_words(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let known = [
        (", set DuplicateKeyPolicy in Options if acceptable", ""),
        (" rejected by the configured policy", " is not a number here"),
        ("recursive references require weak recursion types", "an alias within its own anchor"),
        ("tabs disallowed within this context", "a tab where YAML takes only spaces"),
    ];
    known.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// A key without a value, such as `plugins:`, is common in YAML written by hand. It reads as the default, such as an empty
/// list.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
