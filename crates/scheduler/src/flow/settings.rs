//! The settings of flow control, read from the configuration.

use std::collections::BTreeMap;

use super::{
    detector::{Detector, detector},
    limits::UsageLimit,
    section::{Band, Section, TimeToLive, count, part, wrong},
};
use crate::parameters::parameters;
use crate::{
    config::EndpointPickerConfig,
    error::ConfigError,
    parameters::{NoParameters, Parameters},
    reading,
};
use serde::Deserialize;

/// All settings of flow control.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Whether the feature gate is on. Otherwise no request waits.
    pub enabled: bool,
    /// The most requests that may wait in all bands.
    pub max_requests: Option<u64>,
    /// The most bytes of requests that may wait in all bands.
    pub max_bytes: Option<u64>,
    /// The configured bands, by priority.
    pub bands: BTreeMap<i32, BandSettings>,
    /// The settings of other bands with priority 0 and above.
    pub default_band: BandSettings,
    /// The settings of other bands with a negative priority.
    pub negative_band: BandSettings,
    /// The policy that stops the dispatch of each priority.
    pub usage_limit: UsageLimit,
    /// The measurement of the saturation.
    pub detector: Detector,
    /// Whether requests in flight that may be dropped are evicted to make room.
    pub eviction: bool,
}

/// One band.
#[derive(Debug, Clone, PartialEq)]
pub struct BandSettings {
    /// How long a request may wait.
    pub time_to_live: TimeToLive,
    /// The most requests that may wait in the band. `None` means no limit.
    pub max_requests: Option<u64>,
    /// The most bytes that may wait in the band. `None` means no limit.
    pub max_bytes: Option<u64>,
    /// The policy that chooses the next flow.
    pub fairness: Fairness,
    /// The policy that chooses the next request of a flow.
    pub ordering: Ordering,
}

/// A fairness policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fairness {
    /// The first request of the band, without regard to flows.
    GlobalStrict,
    /// Flows take turns.
    RoundRobin,
    /// The flow with the least service.
    LeastService(LeastService),
}

/// How flows are compared by their service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeastService {
    /// The weight of little service.
    pub service_weight: f64,
    /// The weight of a long wait of the flow's first request.
    pub wait_weight: f64,
    /// The half-life of service, in milliseconds. 0 means that service never decays.
    pub half_life_ms: f64,
    /// The time in milliseconds after which a flow without requests is forgotten. 0 means never.
    pub forget_ms: f64,
    /// How often such flows are removed, in milliseconds.
    pub sweep_ms: f64,
}

/// An ordering policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// By arrival.
    FirstCome,
    /// By the end of the time to live.
    EarliestDeadline,
    /// By the requested time to the first token. Requests without this objective come last.
    SloDeadline,
}

parameters! {
    struct StaticLimit {
        threshold: f64 = 1.0,
    }
}

parameters! {
    struct ProgramAware {
        strategy: String = "las".to_owned(),
        las_weight_service: f64 = 0.8,
        las_weight_head_wait: f64 = 0.2,
        las_half_life_seconds: f64 = 60.0,
        eviction_ttl_seconds: f64 = 3600.0,
        eviction_sweep_seconds: f64 = 300.0,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Holdback {
    min_ceiling: Option<f64>,
    max_ceiling: Option<f64>,
    shape: Option<String>,
    domain: Option<String>,
}

impl Settings {
    /// Reads the `flowControl` section and the plugins that it refers to.
    ///
    /// # Errors
    /// The error in the section or its plugins. They are checked even if the feature gate is off.
    pub fn from_config(config: &EndpointPickerConfig) -> Result<Self, ConfigError> {
        let section = config.flow_control.as_ref().filter(|value| !value.is_null());
        let section: Section = match section {
            None => Section::default(),
            Some(section) => reading::read_at("flowControl", section)
                .map_err(|error| config.as_written(ConfigError::unreadable_parameter(&error)))?,
        };
        let time_to_live = TimeToLive::default().read(
            "",
            section.default_request_ttl.as_ref(),
            section.no_endpoint_request_ttl.as_ref(),
        )?;
        let band = |path: &str, spec| band(config, path, spec, time_to_live);
        let mut bands = BTreeMap::new();
        for (index, spec) in section.priority_bands.iter().flatten().enumerate() {
            let path = format!("priorityBands[{index}]");
            let priority = spec.priority.ok_or_else(|| wrong(&path, "field \"priority\" is missing"))?;
            if bands.insert(priority, band(&path, Some(spec))?).is_some() {
                return Err(wrong(&format!("{path}.priority"), format!("{priority} is listed twice")));
            }
        }
        let default_band = band("defaultPriorityBand", section.default_priority_band.as_ref())?;
        let negative = section.default_negative_priority_band.as_ref();
        Ok(Self {
            enabled: config.is_enabled("flowControl"),
            eviction: section.enable_eviction == Some(true),
            max_requests: count("maxRequests", section.max_requests.as_ref())?,
            max_bytes: count("maxBytes", section.max_bytes.as_ref())?,
            bands,
            negative_band: match negative {
                None => default_band.clone(),
                spec => band("defaultNegativePriorityBand", spec)?,
            },
            default_band,
            usage_limit: usage_limit(config, section.usage_limit_policy_plugin_ref.as_deref())?,
            detector: detector(
                config,
                section.saturation_detector.as_ref().and_then(|detector| detector.plugin_ref.as_deref()),
            )?,
        })
    }

    /// Whether a fairness policy uses the service of flows.
    pub fn asks_for_service(&self) -> bool {
        self.enabled && self.least_service().is_some()
    }

    /// Returns the first fairness policy that uses the service of flows. Service is counted only once, with the settings of
    /// this policy.
    pub(super) fn least_service(&self) -> Option<LeastService> {
        let mut bands = self.bands.values().chain([&self.default_band, &self.negative_band]);
        bands.find_map(|band| match band.fairness {
            Fairness::LeastService(policy) => Some(policy),
            _ => None,
        })
    }

    /// Returns the settings of the band with this priority.
    pub(super) fn band(&self, priority: i32) -> &BandSettings {
        let other = if priority < 0 { &self.negative_band } else { &self.default_band };
        self.bands.get(&priority).unwrap_or(other)
    }
}

fn band(
    config: &EndpointPickerConfig,
    path: &str,
    spec: Option<&Band>,
    time_to_live: TimeToLive,
) -> Result<BandSettings, ConfigError> {
    let spec = spec.cloned().unwrap_or_default();
    let fairness = match part(config, spec.fairness_policy_ref.as_deref(), "global-strict-fairness-policy") {
        ("round-robin-fairness-policy", parameters) => {
            parameters.read::<NoParameters>()?;
            Fairness::RoundRobin
        }
        ("program-aware-fairness", parameters) => Fairness::LeastService(least_service(&parameters)?),
        (_, parameters) => {
            parameters.read::<NoParameters>()?;
            Fairness::GlobalStrict
        }
    };
    let ordering = match part(config, spec.ordering_policy_ref.as_deref(), "fcfs-ordering-policy") {
        ("edf-ordering-policy", parameters) => (Ordering::EarliestDeadline, parameters),
        ("slo-deadline-ordering-policy", parameters) => (Ordering::SloDeadline, parameters),
        (_, parameters) => (Ordering::FirstCome, parameters),
    };
    ordering.1.read::<NoParameters>()?;
    Ok(BandSettings {
        time_to_live: time_to_live.read(
            &format!("{path}."),
            spec.default_request_ttl.as_ref(),
            spec.no_endpoint_request_ttl.as_ref(),
        )?,
        max_requests: Some(
            count(&format!("{path}.maxRequests"), spec.max_requests.as_ref())?.unwrap_or(5000),
        ),
        max_bytes: Some(
            count(&format!("{path}.maxBytes"), spec.max_bytes.as_ref())?.unwrap_or(1_000_000_000),
        ),
        fairness,
        ordering: ordering.0,
    })
}

/// Checks the parameters of a flow control policy, even if nothing refers to it. Ignores other plugins. Detectors are also
/// filters, and are checked as such.
pub(crate) fn check_part(plugin_type: &str, parameters: &Parameters<'_>) -> Result<(), ConfigError> {
    match plugin_type {
        "static-usage-limit-policy" | "priority-holdback-policy" | "soft-reflective-ceiling-policy" => {
            read_usage_limit(plugin_type, parameters)?;
        }
        "program-aware-fairness" => {
            least_service(parameters)?;
        }
        "global-strict-fairness-policy"
        | "round-robin-fairness-policy"
        | "fcfs-ordering-policy"
        | "edf-ordering-policy"
        | "slo-deadline-ordering-policy"
        | "sheddable-eviction-filter"
        | "priority-then-time-eviction-order-policy" => {
            parameters.read::<NoParameters>()?;
        }
        _ => {}
    }
    Ok(())
}

fn least_service(parameters: &Parameters<'_>) -> Result<LeastService, ConfigError> {
    let raw: ProgramAware = parameters.read()?;
    parameters.require(
        raw.strategy == "las",
        "strategy",
        format!("expected las, found \"{}\"", raw.strategy),
    )?;
    for (field, value) in [
        ("lasWeightService", raw.las_weight_service),
        ("lasWeightHeadWait", raw.las_weight_head_wait),
        ("lasHalfLifeSeconds", raw.las_half_life_seconds),
        ("evictionTtlSeconds", raw.eviction_ttl_seconds),
    ] {
        parameters.zero_or_more(field, value)?;
    }
    parameters.above_zero("evictionSweepSeconds", raw.eviction_sweep_seconds)?;
    Ok(LeastService {
        service_weight: raw.las_weight_service,
        wait_weight: raw.las_weight_head_wait,
        half_life_ms: raw.las_half_life_seconds * 1000.0,
        forget_ms: raw.eviction_ttl_seconds * 1000.0,
        sweep_ms: raw.eviction_sweep_seconds * 1000.0,
    })
}

fn usage_limit(config: &EndpointPickerConfig, name: Option<&str>) -> Result<UsageLimit, ConfigError> {
    let (plugin_type, parameters) = part(config, name, "static-usage-limit-policy");
    read_usage_limit(plugin_type, &parameters)
}

fn read_usage_limit(plugin_type: &str, parameters: &Parameters<'_>) -> Result<UsageLimit, ConfigError> {
    match plugin_type {
        "soft-reflective-ceiling-policy" => {
            parameters.read::<NoParameters>()?;
            Ok(UsageLimit::SoftReflective)
        }
        "priority-holdback-policy" => {
            let raw: Holdback = parameters.read()?;
            let min = raw.min_ceiling.ok_or_else(|| parameters.invalid("minCeiling", "it is required"))?;
            let max = raw.max_ceiling.unwrap_or(1.0);
            parameters.require(
                0.0 < max && max <= 1.0,
                "maxCeiling",
                format!("expected a number above 0, and at most 1, found {max}"),
            )?;
            parameters.require(
                0.0 <= min && min < max,
                "minCeiling",
                format!("expected 0 or more, and less than maxCeiling ({max}), found {min}"),
            )?;
            if let Some(shape) = raw.shape.filter(|shape| shape != "linear") {
                return Err(parameters.invalid("shape", format!("expected linear, found \"{shape}\"")));
            }
            let by_value = match raw.domain.as_deref() {
                None | Some("rank") => false,
                Some("value") => true,
                Some(other) => {
                    return Err(
                        parameters.invalid("domain", format!("expected rank or value, found \"{other}\""))
                    );
                }
            };
            Ok(UsageLimit::Holdback { min, max, by_value })
        }
        _ => {
            let StaticLimit { threshold } = parameters.read()?;
            parameters.above_zero("threshold", threshold)?;
            Ok(UsageLimit::Static { threshold })
        }
    }
}
