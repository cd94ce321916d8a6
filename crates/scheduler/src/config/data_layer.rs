//! The metrics to scrape, and their names per engine: `metrics-data-source` and `core-metrics-extractor`.

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::{labels::ENGINE_TYPE, picker_plugins::METRICS_EXTRACTOR};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::EndpointPickerConfig;
use crate::parameters::parameters;
use crate::{error::ConfigError, parameters::Parameters, registry};

/// The metrics to scrape and to extract.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataLayer {
    /// The metrics page.
    pub source: MetricsSource,
    /// The engine of endpoints without a label.
    pub default_engine: String,
    /// Labels with the name of an endpoint's engine. The first label that an endpoint has counts.
    pub engine_labels: Vec<String>,
    /// Metric names per engine.
    pub engines: BTreeMap<String, EngineConfig>,
    /// The discovery file, if endpoints come from a file.
    pub discovery_file: Option<String>,
    /// Whether nothing is scraped, because default sources are off and no source is declared.
    pub disabled: bool,
}

parameters! {
    /// `metrics-data-source`. Unknown parameters are refused.
    #[derive(Clone, PartialEq, Eq)]
    pub struct MetricsSource {
        /// `http` or `https`.
        pub scheme: String = "http".to_owned(),
        /// The page.
        pub path: String = "/metrics".to_owned(),
        /// Another port than the endpoint's; 0: the endpoint's.
        pub port: u16,
        /// Whether any certificate is accepted.
        pub insecure_skip_verify: bool = true,
        /// PEM file of the authority to verify against.
        pub ca_cert_path: String,
        /// PEM file of the client certificate.
        pub client_cert_path: String,
        /// PEM file of its key.
        pub client_key_path: String,
        /// Another interval than the flag's, as a Go duration; empty: the flag's.
        pub interval: String,
    }
}

/// Where one engine's numbers are. A specification is `name` or `name{label=value,…}`, or empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EngineConfig {
    /// The engine's name, as in the label.
    pub name: String,
    /// Requests waiting.
    #[serde(deserialize_with = "unless_empty")]
    pub queued_requests_spec: Option<MetricSpec>,
    /// Requests running.
    #[serde(deserialize_with = "unless_empty")]
    pub running_requests_spec: Option<MetricSpec>,
    /// KV cache usage, 0 to 1.
    #[serde(deserialize_with = "unless_empty")]
    pub kv_usage_spec: Option<MetricSpec>,
    /// LoRA adapters, in labels.
    #[serde(deserialize_with = "unless_empty")]
    pub lora_spec: Option<MetricSpec>,
    /// KV cache geometry, in labels.
    #[serde(deserialize_with = "unless_empty")]
    pub cache_info_spec: Option<MetricSpec>,
    /// Its label for tokens per block.
    pub cache_block_size_label_name: Option<String>,
    /// Its label for the number of blocks.
    pub cache_num_blocks_label_name: Option<String>,
    /// Tokens per block, as a value.
    #[serde(deserialize_with = "unless_empty")]
    pub cache_block_size_spec: Option<MetricSpec>,
    /// The number of blocks, as a value.
    #[serde(deserialize_with = "unless_empty")]
    pub cache_num_blocks_spec: Option<MetricSpec>,
    /// Further attributes.
    pub custom_metrics: Vec<CustomMetric>,
}

/// An attribute of endpoints, and where its value is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomMetric {
    /// The attribute's name.
    pub attribute_key: String,
    /// The metric.
    pub metric_spec: MetricSpec,
}

/// A metric's name, and the labels its series must have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct MetricSpec {
    /// The name.
    pub name: String,
    /// Labels with values.
    pub labels: Vec<(String, String)>,
}

impl TryFrom<String> for MetricSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let invalid =
            || format!("metric specification \"{text}\" is not of the form name or name{{label=value}}");
        let (name, rest) = match text.split_once('{') {
            None => (text.as_str(), None),
            Some((name, rest)) => (name, Some(rest.strip_suffix('}').ok_or_else(invalid)?)),
        };
        let name = name.trim();
        if name.is_empty() {
            return Err(invalid());
        }
        let mut labels = Vec::new();
        for pair in rest.unwrap_or_default().split(',').filter(|pair| !pair.trim().is_empty()) {
            let (label, value) = pair.split_once('=').ok_or_else(invalid)?;
            labels.push((label.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
        }
        Ok(Self { name: name.to_owned(), labels })
    }
}

/// A specification, or none if it is empty.
fn unless_empty<'de, D: Deserializer<'de>>(text: D) -> Result<Option<MetricSpec>, D::Error> {
    let text = Option::<String>::deserialize(text)?.filter(|text| !text.is_empty());
    text.map(MetricSpec::try_from).transpose().map_err(D::Error::custom)
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Extractor {
    engine_label_key: String,
    default_engine: String,
    engine_configs: Vec<EngineConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FileDiscovery {
    path: String,
    /// Always watched: it costs nothing, and a stale list would be a surprise.
    #[serde(rename = "watchFile")]
    _watch_file: Option<bool>,
}

impl DataLayer {
    /// Reads the declared plugins. Declared engines are added to the built-in ones.
    pub fn from_config(config: &EndpointPickerConfig) -> Result<Self, ConfigError> {
        // A reference to a plugin of an unknown type would otherwise hide that the type is unknown.
        registry::known(config)?;
        let mut layer = Self {
            source: MetricsSource::default(),
            default_engine: "vllm".to_owned(),
            engine_labels: vec!["llm-d.ai/engine-type".to_owned(), ENGINE_TYPE.to_owned()],
            engines: built_in(),
            discovery_file: None,
            disabled: false,
        };
        let mut declared = false;
        for plugin in &config.plugins {
            let parameters = Parameters::of(plugin);
            match plugin.plugin_type.as_str() {
                "metrics-data-source" => {
                    // An endpoint has one metrics page, so a second source could only replace the first.
                    parameters.require(!declared, "", "there may be one metrics-data-source")?;
                    declared = true;
                    layer.source = parameters.read()?;
                    layer.source.check(&parameters)?;
                }
                METRICS_EXTRACTOR => layer.add_engines(parameters.read()?, &parameters)?,
                _ => {}
            }
        }
        if let Some(spec) = &config.data_layer {
            layer.disabled = spec.inject_defaults == Some(false) && !declared;
            layer.discovery_file = discovery_file(config, spec)?;
        }
        Ok(layer)
    }

    /// Adds the engines that a plugin declares, and how endpoints name them.
    fn add_engines(&mut self, extractor: Extractor, parameters: &Parameters<'_>) -> Result<(), ConfigError> {
        if !extractor.engine_label_key.is_empty() {
            self.engine_labels.insert(0, extractor.engine_label_key);
        }
        if !extractor.default_engine.is_empty() {
            self.default_engine = extractor.default_engine;
        }
        let mut names = BTreeSet::new();
        for (index, engine) in extractor.engine_configs.into_iter().enumerate() {
            let field = format!("engineConfigs[{index}].name");
            parameters.require(!engine.name.is_empty(), &field, "it is required")?;
            parameters.require(
                engine.name != "default",
                &field,
                "\"default\" is the name of defaultEngine",
            )?;
            parameters.require(names.insert(engine.name.clone()), &field, "an engine above has this name")?;
            let mut keys = BTreeSet::new();
            for (metric, custom) in engine.custom_metrics.iter().enumerate() {
                let field = format!("engineConfigs[{index}].customMetrics[{metric}].attributeKey");
                parameters.require(!custom.attribute_key.is_empty(), &field, "it is required")?;
                let key = custom.attribute_key.as_str();
                parameters.require(keys.insert(key), &field, "a metric above has this key")?;
            }
            self.engines.insert(engine.name.clone(), engine);
        }
        if self.engines.contains_key(&self.default_engine) {
            return Ok(());
        }
        let engine = &self.default_engine;
        Err(parameters.invalid("defaultEngine", format!("\"{engine}\" is not one of engineConfigs")))
    }
}

// === impl MetricsSource ===

impl MetricsSource {
    fn check(&self, parameters: &Parameters<'_>) -> Result<(), ConfigError> {
        let Self { scheme, interval, .. } = self;
        parameters.require(
            matches!(scheme.as_str(), "http" | "https"),
            "scheme",
            format!("expected http or https, found \"{scheme}\""),
        )?;
        parameters.require(
            self.insecure_skip_verify || !self.ca_cert_path.is_empty(),
            "insecureSkipVerify",
            "false needs a caCertPath",
        )?;
        parameters.require(
            self.client_cert_path.is_empty() == self.client_key_path.is_empty(),
            "",
            "clientCertPath and clientKeyPath must be set together",
        )?;
        if !interval.is_empty() {
            parameters.duration("interval", interval)?;
        }
        parameters.require(
            self.client_cert_path.is_empty() || scheme == "https",
            "clientCertPath",
            "a client certificate needs scheme: https",
        )?;
        Ok(())
    }
}

fn discovery_file(
    config: &EndpointPickerConfig,
    spec: &super::DataLayerSpec,
) -> Result<Option<String>, ConfigError> {
    let endpoints = spec.discovery.as_ref().and_then(|discovery| discovery.endpoints.as_ref());
    let Some(reference) = endpoints.map(|endpoints| endpoints.plugin_ref.as_str()) else {
        return Ok(None);
    };
    let plugin = config
        .plugin(reference)
        .filter(|plugin| plugin.plugin_type == "file-discovery")
        .ok_or_else(|| {
            let expected = "a declared file-discovery plugin";
            let from = "dataLayer.discovery.endpoints.pluginRef";
            config.as_written(ConfigError::reference(from, reference, expected, config.names()))
        })?;
    let parameters = Parameters::of(plugin);
    let file: FileDiscovery = parameters.read()?;
    parameters.require(!file.path.is_empty(), "path", "it is required")?;
    Ok(Some(file.path))
}

fn built_in() -> BTreeMap<String, EngineConfig> {
    let spec =
        |text: &str| Some(MetricSpec::try_from(text.to_owned()).expect("the names below are of this form"));
    let engines = [
        EngineConfig {
            name: "vllm".to_owned(),
            queued_requests_spec: spec("vllm:num_requests_waiting"),
            running_requests_spec: spec("vllm:num_requests_running"),
            kv_usage_spec: spec("vllm:kv_cache_usage_perc"),
            lora_spec: spec("vllm:lora_requests_info"),
            cache_info_spec: spec("vllm:cache_config_info"),
            ..EngineConfig::default()
        },
        EngineConfig {
            name: "sglang".to_owned(),
            queued_requests_spec: spec("sglang:num_queue_reqs"),
            running_requests_spec: spec("sglang:num_running_reqs"),
            kv_usage_spec: spec("sglang:token_usage"),
            cache_info_spec: spec("sglang:cache_config_info"),
            cache_block_size_label_name: Some("page_size".to_owned()),
            cache_num_blocks_label_name: Some("num_pages".to_owned()),
            // Versions from 0.5.14 on, and perhaps older ones, have these in place of the labels.
            cache_block_size_spec: spec("sglang:page_size"),
            cache_num_blocks_spec: spec("sglang:num_pages"),
            ..EngineConfig::default()
        },
        EngineConfig {
            name: "trtllm-serve".to_owned(),
            queued_requests_spec: spec("trtllm_num_requests_waiting"),
            running_requests_spec: spec("trtllm_num_requests_running"),
            kv_usage_spec: spec("trtllm_kv_cache_utilization"),
            cache_block_size_spec: spec("trtllm_kv_cache_tokens_per_block"),
            cache_num_blocks_spec: spec("trtllm_kv_cache_max_blocks"),
            ..EngineConfig::default()
        },
        EngineConfig {
            name: "llamacpp".to_owned(),
            queued_requests_spec: spec("llamacpp:requests_deferred"),
            running_requests_spec: spec("llamacpp:requests_processing"),
            ..EngineConfig::default()
        },
        EngineConfig {
            name: "triton-tensorrt-llm".to_owned(),
            queued_requests_spec: spec("nv_trt_llm_request_metrics{request_type=waiting}"),
            running_requests_spec: spec("nv_trt_llm_request_metrics{request_type=scheduled}"),
            kv_usage_spec: spec("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
            cache_block_size_spec: spec("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}"),
            cache_num_blocks_spec: spec("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}"),
            ..EngineConfig::default()
        },
        EngineConfig {
            name: "triton".to_owned(),
            queued_requests_spec: spec("nv_inference_pending_request_count"),
            running_requests_spec: spec("nv_inference_exec_count"),
            ..EngineConfig::default()
        },
    ];
    engines.into_iter().map(|engine| (engine.name.clone(), engine)).collect()
}
