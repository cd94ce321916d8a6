//! Names in a configuration that stand for plugins outside of the scheduling profiles: parsers and parts of flow control.

use serde_json::Value;

use super::EndpointPickerConfig;
use crate::error::ConfigError;

/// What understands requests of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parser {
    /// OpenAI's API.
    OpenAi,
    /// Anthropic's API.
    Anthropic,
    /// The part of vLLM's own API that generates.
    VllmHttp,
    /// Everything that no other parser knows: bodies are not read.
    Passthrough,
}

/// Types of parsers.
const PARSERS: [(&str, Parser); 4] = [
    ("openai-parser", Parser::OpenAi),
    ("anthropic-parser", Parser::Anthropic),
    ("vllmhttp-parser", Parser::VllmHttp),
    ("passthrough-parser", Parser::Passthrough),
];

/// What is understood where the configuration names no parser.
const DEFAULT_PARSERS: [Parser; 3] = [Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp];

/// Types that a part of flow control may have. Each is there under its own name without being declared.
const DETECTORS: &[&str] = &["utilization-detector", "concurrency-detector"];
const FAIRNESS: &[&str] = &["global-strict-fairness-policy", "round-robin-fairness-policy"];
const ORDERING: &[&str] = &["fcfs-ordering-policy", "edf-ordering-policy", "slo-deadline-ordering-policy"];
const LIMITS: &[&str] =
    &["static-usage-limit-policy", "priority-holdback-policy", "soft-reflective-ceiling-policy"];

impl EndpointPickerConfig {
    /// The parsers that requests are tried with.
    pub fn parsers(&self) -> Result<Vec<Parser>, ConfigError> {
        let listed = self.request_handler.iter().flat_map(|handler| &handler.parsers);
        let references: Vec<_> = listed.map(|parser| ("requestHandler.parsers", parser)).collect();
        let former = self.parser.iter().map(|parser| ("parser", parser));
        // The former field counts where the present one is not used.
        let references = if references.is_empty() { former.collect() } else { references };
        if references.is_empty() {
            return Ok(DEFAULT_PARSERS.to_vec());
        }
        references
            .into_iter()
            .map(|(from, reference)| {
                let plugin = self.plugin(&reference.plugin_ref);
                let known =
                    plugin.and_then(|plugin| PARSERS.iter().find(|(name, _)| *name == plugin.plugin_type));
                known.map(|(_, parser)| *parser).ok_or_else(|| ConfigError::Reference {
                    from: from.to_owned(),
                    reference: reference.plugin_ref.clone(),
                    expected: "a declared parser",
                })
            })
            .collect()
    }

    /// Checks every reference that no scheduling profile makes.
    pub(crate) fn check_references(&self) -> Result<(), ConfigError> {
        self.parsers()?;
        crate::flow::Settings::from_config(self)?;
        if let Some(detector) = &self.saturation_detector {
            self.check_part(detector, "saturationDetector", "pluginRef", DETECTORS)?;
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
        Err(ConfigError::Reference {
            from: format!("{at}.{field}"),
            reference: name.map_or_else(|| value.to_string(), str::to_owned),
            expected: types.first().copied().unwrap_or_default(),
        })
    }
}
