//! The table of all plugin types, one line each.

mod former;
mod refused;

use std::{collections::BTreeMap, sync::Arc};

use longboat_key::nearest;

use crate::{
    admitters,
    config::{EndpointPickerConfig, PluginSpec, nearest::similar},
    deciders,
    error::{ConfigError, MissingType, Suggestion},
    filters, handlers,
    latency::LatencySettings,
    parameters::Parameters,
    pickers,
    plugin::{Decider, Plugin},
    prefix::Settings,
    prefixes::PrefixSource,
    producer::{self, NamedProducer},
    producers::{self, attribute_reporter::Report, encoder_cache::EncoderCache, tokens::TokenizerSettings},
    scorers,
    sessions::{Agents, SessionSource},
    topology::{self, Topology},
};

pub use refused::REFUSED;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stability {
    /// Always available.
    Beta,
    /// Behind `--allow-experimental-plugins`.
    Alpha,
}

/// The order of construction. Plugins that others look up are built first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Producer,
    Scheduling,
    Handler,
}

use Stability::{Alpha, Beta};
use Stage::{Handler, Producer, Scheduling};

type Build = fn(&Parameters<'_>, &mut Builder) -> Result<Plugin, ConfigError>;

const TYPES: &[(&str, Stability, Stage, Build)] = &[
    ("p2p-source-producer", Alpha, Scheduling, producers::p2p_source::build),
    ("agent-identity", Alpha, Producer, producers::agent_identity::build),
    ("session-id-producer", Beta, Producer, producers::session_id::build),
    ("approx-prefix-cache-producer", Beta, Producer, producers::approx_prefix::build),
    ("burst-prefix-cache-producer", Alpha, Producer, producers::burst_prefix::build),
    ("inflight-load-producer", Beta, Producer, producers::inflight_load::build),
    ("mm-embeddings-cache-producer", Beta, Producer, producers::encoder_cache::build),
    ("precise-prefix-cache-producer", Beta, Producer, producers::precise_prefix::build),
    ("token-producer", Beta, Producer, producers::tokens::build),
    ("tokenizer", Beta, Producer, producers::tokens::build),
    ("request-attribute-reporter", Beta, Producer, producers::attribute_reporter::build),
    ("predicted-latency-producer", Beta, Producer, producers::predicted_latency::build),
    ("topology-extractor", Alpha, Producer, topology::build),
    ("latency-slo-admitter", Beta, Scheduling, admitters::latency_slo::build),
    ("probabilistic-admitter", Beta, Scheduling, admitters::probabilistic::build),
    ("endpoint-notification-source", Beta, Producer, producers::always_on),
    ("destination-endpoint-served-verifier", Beta, Producer, producers::served::build),
    ("k8s-notification-source", Beta, Producer, producers::notifications::build),
    ("label-selector-filter", Beta, Scheduling, filters::label_selector::build),
    ("by-label-selector", Beta, Scheduling, filters::label_selector::build),
    ("by-label", Beta, Scheduling, filters::by_label::build),
    ("prefill-filter", Beta, Scheduling, filters::role::build_prefill),
    ("decode-filter", Beta, Scheduling, filters::role::build_decode),
    ("encode-filter", Beta, Scheduling, filters::role::build_encode),
    ("header-based-testing-filter", Beta, Scheduling, filters::header_testing::build),
    ("prefix-cache-affinity-filter", Beta, Scheduling, filters::prefix_affinity::build),
    ("slo-headroom-tier-filter", Beta, Scheduling, filters::slo_headroom::build),
    ("utilization-filter", Alpha, Scheduling, filters::utilization::build),
    ("endpoint-attribute-filter", Alpha, Scheduling, filters::endpoint_attribute::build),
    ("topology-affinity-filter", Alpha, Scheduling, filters::topology_affinity::build),
    ("session-affinity-filter", Alpha, Scheduling, filters::session_affinity::build),
    ("queue-scorer", Beta, Scheduling, scorers::queue::build_waiting),
    ("running-requests-size-scorer", Beta, Scheduling, scorers::queue::build_running),
    ("kv-cache-utilization-scorer", Beta, Scheduling, scorers::kv_cache::build),
    ("lora-affinity-scorer", Beta, Scheduling, scorers::lora_affinity::build),
    ("latency-scorer", Beta, Scheduling, scorers::latency::build),
    ("load-aware-scorer", Beta, Scheduling, scorers::load_aware::build),
    ("active-request-scorer", Beta, Scheduling, scorers::active_request::build),
    ("token-load-scorer", Beta, Scheduling, scorers::token_load::build),
    ("prefix-cache-scorer", Beta, Scheduling, scorers::prefix_cache::build),
    ("precise-prefix-cache-scorer", Beta, Producer, scorers::precise_prefix::build),
    ("mm-embeddings-cache-scorer", Beta, Scheduling, scorers::encoder_cache::build),
    ("no-hit-lru-scorer", Beta, Scheduling, scorers::no_hit_lru::build),
    ("no-hit-least-requests-scorer", Beta, Scheduling, scorers::no_hit_requests::build),
    ("context-length-aware", Beta, Scheduling, scorers::context_length::build),
    ("session-affinity-scorer", Alpha, Scheduling, scorers::session_affinity::build),
    ("endpoint-attribute-scorer", Alpha, Scheduling, scorers::endpoint_attribute::build),
    ("topology-affinity-scorer", Alpha, Scheduling, scorers::topology_affinity::build),
    ("header-label-affinity-scorer", Alpha, Scheduling, scorers::header_label::build),
    ("max-score-picker", Beta, Scheduling, pickers::max_score::build),
    ("random-picker", Beta, Scheduling, pickers::random::build),
    ("weighted-random-picker", Beta, Scheduling, pickers::weighted_random::build),
    ("always-disagg-pd-decider", Beta, Scheduling, deciders::always::build),
    ("prefix-based-pd-decider", Beta, Scheduling, deciders::prefix_based::build),
    ("always-disagg-multimodal-decider", Beta, Scheduling, deciders::multimodal::build),
    ("single-profile-handler", Beta, Handler, handlers::single::build),
    ("disagg-profile-handler", Beta, Handler, handlers::disagg::build),
    ("pd-profile-handler", Beta, Handler, handlers::pd::build),
    ("data-parallel-profile-handler", Beta, Handler, handlers::data_parallel::build),
    ("header-profile-handler", Alpha, Handler, handlers::header_profile::build),
    // Other parts of the picker always do the work of these types (the profile handler, the metrics scraper, the request
    // parser).
    ("disagg-headers-handler", Beta, Producer, producers::always_on),
    ("prefill-header-handler", Beta, Producer, producers::always_on),
    ("metrics-data-source", Beta, Producer, producers::elsewhere),
    ("core-metrics-extractor", Beta, Producer, producers::elsewhere),
    ("file-discovery", Beta, Producer, producers::elsewhere),
    // It shares state within one process, where all parts of this picker read the same state anyway.
    ("local-syncer", Beta, Producer, producers::always_on),
    ("openai-parser", Beta, Producer, producers::always_on),
    ("anthropic-parser", Beta, Producer, producers::always_on),
    ("vllmhttp-parser", Beta, Producer, producers::always_on),
    ("vllmgrpc-parser", Beta, Producer, producers::always_on),
    ("vertexai-parser", Beta, Producer, producers::always_on),
    ("passthrough-parser", Beta, Producer, producers::always_on),
    // `flow::Settings` reads these types. The default types can be used without a declaration.
    ("concurrency-detector", Beta, Scheduling, filters::saturation::build_concurrency),
    ("max-saturation-detector", Beta, Producer, producers::elsewhere),
    ("priority-holdback-policy", Alpha, Producer, producers::elsewhere),
    ("soft-reflective-ceiling-policy", Alpha, Producer, producers::elsewhere),
    // Eviction has only one filter and one order.
    ("sheddable-eviction-filter", Alpha, Producer, producers::elsewhere),
    ("priority-then-time-eviction-order-policy", Alpha, Producer, producers::elsewhere),
    ("edf-ordering-policy", Beta, Producer, producers::elsewhere),
    ("slo-deadline-ordering-policy", Beta, Producer, producers::elsewhere),
    ("program-aware-fairness", Beta, Producer, producers::elsewhere),
    ("round-robin-fairness-policy", Beta, Producer, producers::elsewhere),
    ("utilization-detector", Beta, Scheduling, filters::saturation::build_utilization),
    ("static-usage-limit-policy", Beta, Producer, producers::elsewhere),
    ("fcfs-ordering-policy", Beta, Producer, producers::elsewhere),
    ("global-strict-fairness-policy", Beta, Producer, producers::elsewhere),
];

/// All plugin types that can be declared, sorted.
pub fn known_types() -> Vec<&'static str> {
    let mut types: Vec<_> = TYPES.iter().map(|(name, ..)| *name).collect();
    types.sort_unstable();
    types
}

/// What plugins require of other parts of the picker.
#[derive(Default)]
pub(crate) struct Requirements {
    pub(crate) tokenizer: Option<TokenizerSettings>,
    /// The reports about responses to the proxy.
    pub(crate) reports: Vec<Report>,
    /// Whether responses name the endpoint that served.
    pub(crate) tells_served: bool,
    /// The headers in which agents name their sessions.
    pub(crate) agents: Option<Agents>,
    /// Names of the declared load producers.
    pub(crate) loads: Vec<String>,
}

/// The data that plugins register while they are built.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) requirements: Requirements,
    /// The producers with state, also those of scorers.
    pub(crate) producers: Vec<NamedProducer>,
    /// The sources of sessions, by the name of the producer.
    pub(crate) session_ids: Vec<(String, SessionSource)>,
    /// The declared topology extractors.
    pub(crate) topologies: Vec<(String, Topology)>,
    /// References of producers to prefix producers. They are checked when all producers are known.
    pub(crate) wanted_prefixes: Vec<(String, String)>,
    /// References of producers to load producers. They are checked when all producers are known.
    pub(crate) wanted_loads: Vec<(String, String)>,
    /// The predictor of latencies.
    pub(crate) latency: Option<Predictor>,
    deciders: BTreeMap<String, Arc<dyn Decider>>,
}

/// The predictor of latencies, and the producers that it reads.
pub(crate) struct Predictor {
    pub(crate) settings: LatencySettings,
    pub(crate) prefix: Option<String>,
    /// The producer of encoder caches; empty: the first one. `None` if none is read.
    pub(crate) encoder_cache: Option<String>,
}

/// The name under which the default prefix producer is found.
const DEFAULT_PREFIX: &str = "approx-prefix-cache-producer";
/// The name of the default load producer.
const DEFAULT_LOAD: &str = "inflight-load-producer";
/// The name of the default producer of encoder caches.
const DEFAULT_ENCODER_CACHE: &str = "mm-embeddings-cache-producer";
/// The name of the default predictor.
const DEFAULT_LATENCY: &str = "predicted-latency-producer";

impl Builder {
    /// Adds a producer under the plugin's name, and returns its place.
    pub(crate) fn add(&mut self, parameters: &Parameters<'_>, producer: impl producer::Producer) -> usize {
        let (name, producer) = (parameters.name.to_owned(), Box::new(producer));
        self.producers.push(NamedProducer { name, producer, times: None });
        self.producers.len() - 1
    }

    /// Returns the producers of this type, with their places and names.
    pub(crate) fn all<T: producer::Producer>(&self) -> impl Iterator<Item = (usize, &str, &T)> {
        let producers = self.producers.iter().enumerate();
        producers.filter_map(|(place, named)| Some((place, named.name.as_str(), named.get::<T>()?)))
    }

    /// Returns the place of the prefix producer that a plugin reads: the named one, or the default one. The default one is
    /// created from these settings if none is declared.
    pub(crate) fn prefix(
        &mut self,
        parameters: &Parameters<'_>,
        producer: Option<&str>,
        default: Settings,
    ) -> Result<usize, ConfigError> {
        let wanted = producer.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_PREFIX);
        let named = self.all::<PrefixSource>().find(|(_, name, _)| *name == wanted).map(|(place, ..)| place);
        if let Some(place) = named {
            return Ok(place);
        }
        if wanted != DEFAULT_PREFIX {
            return Err(self.missing_prefix(parameters.name, wanted));
        }
        // A declared producer with another name serves plugins that name no producer.
        let guessed =
            |(.., source): &(usize, &str, &PrefixSource)| matches!(source, PrefixSource::Guessed(_));
        let first = self.all().find(guessed).map(|(place, ..)| place);
        Ok(first.unwrap_or_else(|| {
            self.add(&Parameters { name: DEFAULT_PREFIX, value: None }, PrefixSource::Guessed(default))
        }))
    }

    fn missing_prefix(&self, plugin: &str, wanted: &str) -> ConfigError {
        ConfigError::reference(
            format!("prefixMatchInfoProducerName of plugin \"{plugin}\""),
            wanted,
            "a declared approx-prefix-cache-producer, precise-prefix-cache-producer or burst-prefix-cache-producer",
            self.all::<PrefixSource>().map(|(_, name, _)| name),
        )
    }

    /// Returns the topology that a plugin reads: that of the named extractor, or of the first one.
    pub(crate) fn topology(
        &self,
        parameters: &Parameters<'_>,
        extractor: Option<&str>,
    ) -> Result<Topology, ConfigError> {
        let found = match extractor.filter(|name| !name.is_empty()) {
            Some(wanted) => self.topologies.iter().find(|(name, _)| name == wanted),
            None if self.topologies.is_empty() => {
                return Err(ConfigError::MissingProducer {
                    name: parameters.name.to_owned(),
                    needs: "the topology of endpoints",
                    declare: "topology-extractor",
                });
            }
            None => self.topologies.first(),
        };
        found.map(|(_, topology)| topology.clone()).ok_or_else(|| {
            ConfigError::reference(
                format!("topologyProducerName of plugin \"{}\"", parameters.name),
                extractor.unwrap_or_default(),
                "a declared topology-extractor",
                self.topologies.iter().map(|(name, _)| name.as_str()),
            )
        })
    }

    /// Returns the place of the producer of encoder caches that a plugin reads: the one that its field names, or else the first
    /// one. A default producer is created if none is declared.
    pub(crate) fn encoder_cache(
        &mut self,
        parameters: &Parameters<'_>,
        field: &str,
        producer: Option<&str>,
    ) -> Result<usize, ConfigError> {
        let wanted = producer.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_ENCODER_CACHE);
        let named = self.all::<EncoderCache>().find(|(_, name, _)| *name == wanted).map(|(place, ..)| place);
        if let Some(place) = named {
            return Ok(place);
        }
        if wanted != DEFAULT_ENCODER_CACHE {
            return Err(ConfigError::reference(
                format!("{field} of plugin \"{}\"", parameters.name),
                wanted,
                "a declared mm-embeddings-cache-producer",
                self.all::<EncoderCache>().map(|(_, name, _)| name),
            ));
        }
        // A declared producer with another name serves plugins that name no producer.
        let first = self.all::<EncoderCache>().next().map(|(place, ..)| place);
        Ok(first.unwrap_or_else(|| {
            self.add(&Parameters { name: wanted, value: None }, EncoderCache::new(wanted, 0))
        }))
    }

    /// Checks a reference to a load producer. Without a name, the default producer is used, which needs no declaration.
    pub(crate) fn load_producer(
        &self,
        parameters: &Parameters<'_>,
        producer: Option<&str>,
    ) -> Result<(), ConfigError> {
        match producer.filter(|name| !name.is_empty() && *name != DEFAULT_LOAD) {
            Some(name) if !self.requirements.loads.iter().any(|known| known == name) => {
                Err(ConfigError::reference(
                    format!("inFlightLoadProducerName of plugin \"{}\"", parameters.name),
                    name,
                    "a declared inflight-load-producer",
                    self.requirements.loads.iter().map(String::as_str),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks a reference to the producer of predicted latencies. Without a name, a default producer is created if none is
    /// declared.
    pub(crate) fn predictor(
        &mut self,
        parameters: &Parameters<'_>,
        producer: Option<&str>,
    ) -> Result<(), ConfigError> {
        let wanted = producer.filter(|name| !name.is_empty() && *name != DEFAULT_LATENCY);
        let declared = self.latency.as_ref().map(|latency| latency.settings.name.as_str());
        match (wanted, declared) {
            (Some(wanted), declared) if declared != Some(wanted) => Err(ConfigError::reference(
                format!("latencyPredictionInfoProducerName of plugin \"{}\"", parameters.name),
                wanted,
                "a declared predicted-latency-producer",
                declared,
            )),
            (None, None) => {
                let settings = producers::predicted_latency::usual(DEFAULT_LATENCY);
                self.latency = Some(Predictor { settings, prefix: None, encoder_cache: None });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Finds the producers that the predictor reads. Called when all producers are known.
    fn settle_latency(&mut self) -> Result<(), ConfigError> {
        let Some(mut latency) = self.latency.take() else { return Ok(()) };
        let name = latency.settings.name.clone();
        let parameters = Parameters { name: &name, value: None };
        latency.settings.prefix = self.prefix(&parameters, latency.prefix.as_deref(), Settings::default())?;
        if let Some(producer) = &latency.encoder_cache {
            let field = "encoderCacheMatchInfoProducerName";
            latency.settings.encoder_cache = Some(self.encoder_cache(&parameters, field, Some(producer))?);
        }
        self.latency = Some(latency);
        Ok(())
    }

    /// Returns a decider by name.
    pub(crate) fn decider(&self, handler: &str, name: &str) -> Result<Arc<dyn Decider>, ConfigError> {
        self.deciders.get(name).cloned().ok_or_else(|| {
            let known = self.deciders.keys().map(String::as_str);
            ConfigError::reference(format!("plugin \"{handler}\""), name, "a declared decider", known)
        })
    }
}

/// Builds every declared plugin.
pub(crate) fn instantiate(
    config: &EndpointPickerConfig,
    allow_experimental: bool,
) -> Result<(Vec<(String, Plugin)>, Builder), ConfigError> {
    known(config)?;
    let mut planned = Vec::new();
    for spec in &config.plugins {
        let name = spec.name();
        if planned.iter().any(|(_, other, _, _): &(_, &str, _, _)| *other == name) {
            return Err(ConfigError::DuplicatePlugin(name.to_owned()));
        }
        // `known` has checked that the type exists.
        let Some(&(_, stability, stage, build)) = TYPES.iter().find(|(known, ..)| *known == spec.plugin_type)
        else {
            continue;
        };
        if stability == Alpha && !allow_experimental {
            return Err(ConfigError::Experimental {
                name: name.to_owned(),
                plugin_type: spec.plugin_type.clone(),
            });
        }
        planned.push((stage, name, spec, build));
    }
    let mut order: Vec<usize> = (0..planned.len()).collect();
    order.sort_by_key(|&index| planned[index].0);
    let mut builder = Builder::default();
    let mut plugins = vec![None; planned.len()];
    for index in order {
        let (_, name, declared, build) = &planned[index];
        let parameters = Parameters { name, value: declared.parameters.as_ref() };
        let plugin = build(&parameters, &mut builder)?;
        if let Some(decider) = &plugin.decider {
            builder.deciders.insert((*name).to_owned(), Arc::clone(decider));
        }
        plugins[index] = Some(plugin);
    }
    for (from, reference) in &builder.wanted_prefixes {
        if reference != DEFAULT_PREFIX && !builder.all::<PrefixSource>().any(|(_, name, _)| name == reference)
        {
            return Err(builder.missing_prefix(from, reference));
        }
    }
    for (from, load) in std::mem::take(&mut builder.wanted_loads) {
        builder.load_producer(&Parameters { name: &from, value: None }, Some(&load))?;
    }
    builder.settle_latency()?;
    let named = planned
        .iter()
        .zip(plugins)
        .filter_map(|((_, name, ..), plugin)| Some(((*name).to_owned(), plugin?)))
        .collect();
    Ok((named, builder))
}

/// The most unknown types that an error names. Each is compared with all known ones.
const LISTED: usize = 8;

/// Checks that every declared type is known. The error lists several unknown types, so that the user can fix them at once.
pub(crate) fn known(config: &EndpointPickerConfig) -> Result<(), ConfigError> {
    let is_unknown = |spec: &&PluginSpec| !TYPES.iter().any(|(known, ..)| *known == spec.plugin_type);
    let mut unknown = config.plugins.iter().filter(is_unknown);
    let missing: Vec<_> = unknown
        .by_ref()
        .take(LISTED)
        .map(|spec| MissingType {
            name: spec.name().to_owned(),
            plugin_type: spec.plugin_type.clone(),
            needs: refused::needs(&spec.plugin_type),
            meant: meant(&spec.plugin_type),
        })
        .collect();
    let more = unknown.count();
    if missing.is_empty() { Ok(()) } else { Err(ConfigError::Types { missing, more }) }
}

fn meant(unknown: &str) -> Suggestion {
    let names = || TYPES.iter().map(|(name, ..)| *name);
    if let Some(name) = former::present_name(unknown) {
        return Suggestion::Renamed(name);
    }
    nearest(names(), unknown)
        .map_or_else(|| Suggestion::Like(similar(names(), unknown, 3)), Suggestion::Misspelt)
}
