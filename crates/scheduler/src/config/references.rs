//! References to plugins outside of the scheduling profiles: parsers and parts of flow control.

use longboat_api::picker_plugins;
use serde_json::Value;

use super::{CROSS_REPLICA, CrossReplicaSpec, EndpointPickerConfig, PEERS, PluginReference};
use crate::{error::ConfigError, parameters::Parameters, producers::latency_observer::LATENCY_OBSERVER};

/// A parser of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parser {
    /// OpenAI's API.
    OpenAi,
    /// Anthropic's API.
    Anthropic,
    /// vLLM's own generate API.
    VllmHttp,
    /// SGLang's own generate API.
    SglangHttp,
    /// vLLM's gRPC service.
    VllmGrpc,
    /// Vertex AI's prediction service over gRPC.
    VertexAi,
    /// Any request. The bodies are not read.
    Passthrough,
}

impl Parser {
    /// Every parser, in the order of the variants.
    pub const ALL: [Self; 7] = [
        Self::OpenAi,
        Self::Anthropic,
        Self::VllmHttp,
        Self::SglangHttp,
        Self::VllmGrpc,
        Self::VertexAi,
        Self::Passthrough,
    ];

    /// The plugin type.
    pub fn plugin_type(self) -> &'static str {
        match self {
            Self::OpenAi => "openai-parser",
            Self::Anthropic => "anthropic-parser",
            Self::VllmHttp => "vllmhttp-parser",
            Self::SglangHttp => "sglanghttp-parser",
            Self::VllmGrpc => "vllmgrpc-parser",
            Self::VertexAi => "vertexai-parser",
            Self::Passthrough => "passthrough-parser",
        }
    }

    fn of_type(plugin_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|parser| parser.plugin_type() == plugin_type)
    }
}

/// The parsers of a configuration that names none.
const DEFAULT_PARSERS: [Parser; 3] = [Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp];

/// The plugin types that each part of flow control may have. Each type can be named without being declared.
const DETECTORS: &[&str] = &["utilization-detector", "concurrency-detector", "max-saturation-detector"];
const FAIRNESS: &[&str] =
    &["global-strict-fairness-policy", "round-robin-fairness-policy", "program-aware-fairness"];
const ORDERING: &[&str] = &["fcfs-ordering-policy", "edf-ordering-policy", "slo-deadline-ordering-policy"];
const LIMITS: &[&str] =
    &["static-usage-limit-policy", "priority-holdback-policy", "soft-reflective-ceiling-policy"];

/// The plugin types that `dataLayer.sources` may name.
const SOURCES: &[&str] =
    &["metrics-data-source", "endpoint-notification-source", "k8s-notification-source", LATENCY_OBSERVER];
/// The plugin types that may share state between replicas.
const SYNCERS: &[&str] = &["local-syncer"];
const PEER_DISCOVERIES: &[&str] = &["k8s-peer-discovery"];
/// The plugin types that may extract from these sources.
const EXTRACTORS: &[&str] = &[
    picker_plugins::METRICS_EXTRACTOR,
    "topology-extractor",
    picker_plugins::PRECISE_PRODUCER,
    picker_plugins::ENCODER_CACHE_PRODUCER,
];

impl EndpointPickerConfig {
    /// Returns the parsers, in the order in which they are tried.
    pub fn parsers(&self) -> Result<Vec<Parser>, ConfigError> {
        let listed = self.request_handler.as_ref().map_or(&[][..], |handler| &handler.parsers);
        if listed.is_empty() {
            return Ok(DEFAULT_PARSERS.to_vec());
        }
        let parser = |(index, reference): (usize, &PluginReference)| {
            let plugin = self.plugin(&reference.plugin_ref);
            plugin.and_then(|plugin| Parser::of_type(&plugin.plugin_type)).ok_or_else(|| {
                let from = format!("requestHandler.parsers[{index}].pluginRef");
                let name = &reference.plugin_ref;
                self.as_written(ConfigError::reference(from, name, "a declared parser", self.names()))
            })
        };
        listed.iter().enumerate().map(parser).collect()
    }

    /// Checks all references to plugins outside of the scheduling profiles.
    pub(crate) fn check_references(&self) -> Result<(), ConfigError> {
        self.parsers()?;
        crate::flow::Settings::from_config(self)?;
        self.check_data_layer()?;
        for plugin in &self.plugins {
            let parameters = Parameters::of(plugin);
            crate::flow::check_part(&plugin.plugin_type, &parameters)?;
            crate::flow::check_several(self, &plugin.plugin_type, &parameters)?;
        }
        let Some(flow) = &self.flow_control else { return Ok(()) };
        if let Some(detector) = flow.get("saturationDetector") {
            self.check_part(detector, "flowControl.saturationDetector", "pluginRef", DETECTORS)?;
        }
        self.check_part(flow, "flowControl", "usageLimitPolicyPluginRef", LIMITS)?;
        let listed = flow.get("priorityBands").and_then(Value::as_array).into_iter().flatten().enumerate();
        let listed = listed.map(|(index, band)| (format!("flowControl.priorityBands[{index}]"), band));
        let named = ["defaultPriorityBand", "defaultNegativePriorityBand"];
        let named = named.iter().filter_map(|name| Some((format!("flowControl.{name}"), flow.get(*name)?)));
        for (at, band) in listed.chain(named) {
            self.check_part(band, &at, "fairnessPolicyRef", FAIRNESS)?;
            self.check_part(band, &at, "orderingPolicyRef", ORDERING)?;
        }
        Ok(())
    }

    /// Checks one reference, if it is there.
    fn check_part(
        &self,
        part: &Value,
        at: &str,
        field: &str,
        types: &[&'static str],
    ) -> Result<(), ConfigError> {
        let Some(value) = part.get(field).filter(|value| !value.is_null() && *value != "") else {
            return Ok(());
        };
        let name = value.as_str();
        let plugin_type = name.and_then(|name| self.plugin(name)).map(|plugin| plugin.plugin_type.as_str());
        let plugin_type = plugin_type.or(name);
        if plugin_type.is_some_and(|found| types.contains(&found)) {
            return Ok(());
        }
        let reference = name.map_or_else(|| value.to_string(), str::to_owned);
        let expected = types.first().copied().unwrap_or_default();
        let known = self.names().chain(types.iter().copied());
        let from = format!("{at}.{field}");
        Err(self.as_written(ConfigError::reference(from, &reference, expected, known)))
    }

    /// Checks the references and durations of `dataLayer`, and refuses fields that are not supported.
    fn check_data_layer(&self) -> Result<(), ConfigError> {
        let Some(data) = &self.data_layer else { return Ok(()) };
        let peers = data.discovery.as_ref().and_then(|discovery| discovery.peers.as_ref());
        if let Some(peers) = peers.filter(|peers| !peers.plugin_ref.is_empty()) {
            let from = format!("{PEERS}.pluginRef");
            self.check_declared(from, &peers.plugin_ref, PEER_DISCOVERIES, "a declared peer discovery")
                .map_err(|error| self.as_written(error))?;
        }
        if let Some(shared) = &data.cross_replica {
            self.check_cross_replica(shared).map_err(|error| self.as_written(error))?;
        }
        for (index, source) in data.sources.iter().enumerate() {
            let at = format!("dataLayer.sources[{index}]");
            self.check_declared(
                format!("{at}.pluginRef"),
                &source.plugin_ref,
                SOURCES,
                "a declared data source",
            )?;
            let takes_none =
                self.plugin(&source.plugin_ref).is_some_and(|found| found.plugin_type == LATENCY_OBSERVER);
            if takes_none && !source.extractors.is_empty() {
                let path = format!("{at}.extractors");
                let message = format!("{path}: {LATENCY_OBSERVER} takes no extractors; remove the field");
                return Err(self.as_written(ConfigError::Shape { path, message }));
            }
            for (index, extractor) in source.extractors.iter().enumerate() {
                let at = format!("{at}.extractors[{index}].pluginRef");
                self.check_declared(at, &extractor.plugin_ref, EXTRACTORS, "a declared extractor")?;
            }
        }
        Ok(())
    }

    fn check_cross_replica(&self, shared: &CrossReplicaSpec) -> Result<(), ConfigError> {
        if let Some(name) = shared.syncer() {
            let from = format!("{CROSS_REPLICA}.syncerPluginRef");
            self.check_declared(from, name, SYNCERS, "a declared syncer")?;
        }
        let duration = |field: &str, value: Option<&str>| {
            let Some(text) = value else { return Ok(None) };
            longboat_quantity::duration::parse(text).map(Some).map_err(|why| {
                let path = format!("{CROSS_REPLICA}.{field}");
                ConfigError::Shape { message: format!("{path}: {why}"), path }
            })
        };
        duration("syncInterval", shared.sync_interval.as_deref())?;
        match duration("publishTimeout", shared.publish_timeout.as_deref())? {
            Some(timeout) if timeout.is_zero() => {
                let path = format!("{CROSS_REPLICA}.publishTimeout");
                Err(ConfigError::Shape { message: format!("{path} must be positive, got 0s"), path })
            }
            _ => Ok(()),
        }
    }

    fn check_declared(
        &self,
        from: String,
        name: &str,
        types: &[&str],
        expected: &'static str,
    ) -> Result<(), ConfigError> {
        if self.plugin(name).is_some_and(|plugin| types.contains(&plugin.plugin_type.as_str())) {
            return Ok(());
        }
        Err(ConfigError::reference(from, name, expected, self.names()))
    }
}
