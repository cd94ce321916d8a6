//! The table of all plugin types, one line each.

mod former;
mod refused;

use std::sync::Arc;

use longboat_api::picker_plugins;
use longboat_key::nearest;

use crate::{
    admitters,
    builder::{Builder, PREFIXES},
    config::{EndpointPickerConfig, PluginSpec, nearest::nearest_names},
    deciders::{self, always::Always, multimodal::Multimodal},
    error::{ConfigError, MissingType, Suggestion},
    filters::{self, header_testing::HeaderTesting, role, saturation},
    handlers::{self, single::Single},
    parameters::Parameters,
    pickers,
    plugin::Plugin,
    prefixes::PrefixSource,
    producers,
    scorers::{self, kv_cache::KvCache, lora_affinity::LoraAffinity, queue::Relative},
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
enum BuildOrder {
    Producer,
    /// It may bring the parameters of the prefix producer that the plugins after it read without naming one.
    PrefixScorer,
    Scheduling,
    Handler,
}

use BuildOrder::{Handler, PrefixScorer, Producer, Scheduling};
use Stability::{Alpha, Beta};

/// Other parts of the picker do the work of these plugins, which have no parameters.
const ALWAYS_ON: Build = |parameters, _| parameters.none(Plugin::default());

type Build = fn(&Parameters<'_>, &mut Builder) -> Result<Plugin, ConfigError>;

const TYPES: &[(&str, Stability, BuildOrder, Build)] = &[
    ("p2p-source-producer", Alpha, Scheduling, producers::p2p_source::build),
    ("agent-identity", Alpha, Producer, producers::agent_identity::build),
    ("session-id-producer", Beta, Producer, producers::session_id::build),
    (picker_plugins::PREFIX_PRODUCER, Beta, Producer, producers::approx_prefix::build),
    ("burst-prefix-cache-producer", Alpha, Producer, producers::burst_prefix::build),
    ("inflight-load-producer", Beta, Producer, producers::inflight_load::build),
    (picker_plugins::ENCODER_CACHE_PRODUCER, Beta, Producer, producers::encoder_cache::build),
    (picker_plugins::PRECISE_PRODUCER, Beta, Producer, producers::precise_prefix::build),
    (picker_plugins::TOKEN_PRODUCER, Beta, Producer, producers::tokens::build),
    ("tokenizer", Beta, Producer, producers::tokens::build),
    ("request-attribute-reporter", Beta, Producer, producers::attribute_reporter::build),
    (picker_plugins::LATENCY_PRODUCER, Beta, Producer, producers::predicted_latency::build),
    (producers::latency_observer::LATENCY_OBSERVER, Alpha, Producer, producers::latency_observer::build),
    ("topology-extractor", Alpha, Producer, producers::topology_extractor::build),
    ("latency-slo-admitter", Beta, Scheduling, admitters::latency_slo::build),
    ("probabilistic-admitter", Beta, Scheduling, admitters::probabilistic::build),
    ("endpoint-notification-source", Beta, Producer, ALWAYS_ON),
    ("destination-endpoint-served-verifier", Beta, Producer, producers::served::build),
    ("k8s-notification-source", Beta, Producer, producers::notifications::build),
    ("label-selector-filter", Beta, Scheduling, filters::label_selector::build),
    ("by-label-selector", Beta, Scheduling, filters::label_selector::build),
    ("by-label", Beta, Scheduling, filters::by_label::build),
    ("prefill-filter", Beta, Scheduling, |parameters, _| parameters.none(Plugin::filter(role::PREFILL))),
    ("decode-filter", Beta, Scheduling, |parameters, _| parameters.none(Plugin::filter(role::DECODE))),
    ("encode-filter", Beta, Scheduling, |parameters, _| parameters.none(Plugin::filter(role::ENCODE))),
    ("header-based-testing-filter", Beta, Scheduling, |parameters, _| {
        parameters.none(Plugin::filter(HeaderTesting))
    }),
    ("prefix-cache-affinity-filter", Beta, Scheduling, filters::prefix_affinity::build),
    ("slo-headroom-tier-filter", Beta, Scheduling, filters::slo_headroom::build),
    ("utilization-filter", Alpha, Scheduling, filters::utilization::build),
    ("endpoint-attribute-filter", Alpha, Scheduling, filters::endpoint_attribute::build),
    ("topology-affinity-filter", Alpha, Scheduling, filters::topology_affinity::build),
    ("session-affinity-filter", Alpha, Scheduling, filters::session_affinity::build),
    ("queue-scorer", Beta, Scheduling, |parameters, _| {
        parameters.none(Plugin::scorer(Relative(|metrics| metrics.waiting)))
    }),
    ("running-requests-size-scorer", Beta, Scheduling, |parameters, _| {
        parameters.none(Plugin::scorer(Relative(|metrics| metrics.running)))
    }),
    ("kv-cache-utilization-scorer", Beta, Scheduling, |parameters, _| {
        parameters.none(Plugin::scorer(KvCache))
    }),
    (picker_plugins::LORA_SCORER, Beta, Scheduling, |parameters, _| {
        parameters.none(Plugin::scorer(LoraAffinity))
    }),
    ("latency-scorer", Beta, Scheduling, scorers::latency::build),
    ("latency-observation-scorer-hub", Alpha, Scheduling, scorers::latency_observation::build),
    ("load-aware-scorer", Beta, Scheduling, scorers::load_aware::build),
    ("active-request-scorer", Beta, Scheduling, scorers::active_request::build),
    ("token-load-scorer", Beta, Scheduling, scorers::token_load::build),
    (picker_plugins::PREFIX_SCORER, Beta, PrefixScorer, scorers::prefix_cache::build),
    (picker_plugins::PRECISE_SCORER, Beta, Producer, scorers::precise_prefix::build),
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
    ("always-disagg-pd-decider", Beta, Scheduling, |parameters, _| parameters.none(Plugin::decider(Always))),
    ("prefix-based-pd-decider", Beta, Scheduling, deciders::prefix_based::build),
    ("always-disagg-multimodal-decider", Beta, Scheduling, |parameters, _| {
        parameters.none(Plugin::decider(Multimodal))
    }),
    ("single-profile-handler", Beta, Handler, |parameters, _| parameters.none(Plugin::handler(Single))),
    (picker_plugins::DISAGG_HANDLER, Beta, Handler, handlers::disagg::build),
    (picker_plugins::PD_HANDLER, Beta, Handler, handlers::pd::build),
    ("data-parallel-profile-handler", Beta, Handler, handlers::data_parallel::build),
    ("header-profile-handler", Alpha, Handler, handlers::header_profile::build),
    // Other parts of the picker always do the work of these types (the profile handler, the metrics scraper, the request
    // parser).
    (picker_plugins::DISAGG_HEADERS_HANDLER, Beta, Producer, ALWAYS_ON),
    (picker_plugins::PREFILL_HEADER_HANDLER, Beta, Producer, ALWAYS_ON),
    ("metrics-data-source", Beta, Producer, producers::elsewhere),
    (picker_plugins::METRICS_EXTRACTOR, Beta, Producer, producers::elsewhere),
    ("file-discovery", Beta, Producer, producers::elsewhere),
    // It shares state within one process, where all parts of this picker read the same state anyway.
    ("local-syncer", Beta, Producer, ALWAYS_ON),
    ("k8s-peer-discovery", Beta, Producer, producers::peer_discovery::build),
    ("openai-parser", Beta, Producer, ALWAYS_ON),
    ("anthropic-parser", Beta, Producer, ALWAYS_ON),
    ("vllmhttp-parser", Beta, Producer, ALWAYS_ON),
    ("sglanghttp-parser", Beta, Producer, ALWAYS_ON),
    ("vllmgrpc-parser", Beta, Producer, ALWAYS_ON),
    ("vertexai-parser", Beta, Producer, ALWAYS_ON),
    ("passthrough-parser", Beta, Producer, ALWAYS_ON),
    // `flow::Settings` reads these types. The default types can be used without a declaration.
    ("concurrency-detector", Beta, Scheduling, |parameters, builder| {
        saturation::build("concurrency-detector", parameters, builder)
    }),
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
    ("utilization-detector", Beta, Scheduling, |parameters, builder| {
        saturation::build("utilization-detector", parameters, builder)
    }),
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

/// Builds every declared plugin.
pub(crate) fn instantiate(
    config: &EndpointPickerConfig,
    allow_experimental: bool,
) -> Result<(Vec<(String, Plugin)>, Builder), ConfigError> {
    known(config)?;
    let mut planned = Vec::new();
    for spec in &config.plugins {
        let name = spec.name();
        if planned.iter().any(|(_, other, _): &(_, &PluginSpec, _)| other.name() == name) {
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
        planned.push((stage, spec, build));
    }
    let mut order: Vec<usize> = (0..planned.len()).collect();
    order.sort_by_key(|&index| planned[index].0);
    let mut builder = Builder::default();
    let mut plugins = vec![None; planned.len()];
    for index in order {
        let (_, spec, build) = planned[index];
        let plugin = build(&Parameters::of(spec), &mut builder)?;
        if let Some(decider) = &plugin.decider {
            builder.deciders.insert(spec.name().to_owned(), Arc::clone(decider));
        }
        plugins[index] = Some(plugin);
    }
    if let Some((from, reference)) = &builder.load_prefix {
        let named = builder.all::<PrefixSource>().find(|(_, name, _)| name == reference);
        let place = named.map(|(place, ..)| place);
        if place.is_none() && reference != picker_plugins::PREFIX_PRODUCER {
            return Err(builder.missing::<PrefixSource>(&Parameters::undeclared(from), PREFIXES, reference));
        }
        builder.requirements.load_prefix = place;
    }
    for (from, load) in std::mem::take(&mut builder.wanted_loads) {
        builder.load_producer(&Parameters::undeclared(&from), Some(&load))?;
    }
    producers::predicted_latency::settle(&mut builder)?;
    let named = planned.iter().zip(plugins);
    let named = named.filter_map(|((_, spec, _), plugin)| Some((spec.name().to_owned(), plugin?)));
    Ok((named.collect(), builder))
}

/// The most unknown types that an error names. Each is compared with all known ones.
const MAX_LISTED: usize = 8;

/// Checks that every declared type is known. The error lists several unknown types, so that the user can fix them at once.
pub(crate) fn known(config: &EndpointPickerConfig) -> Result<(), ConfigError> {
    let is_unknown = |spec: &&PluginSpec| !TYPES.iter().any(|(known, ..)| *known == spec.plugin_type);
    let mut unknown = config.plugins.iter().filter(is_unknown);
    let missing: Vec<_> = unknown
        .by_ref()
        .take(MAX_LISTED)
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
        .map_or_else(|| Suggestion::Like(nearest_names(names(), unknown, 3)), Suggestion::Misspelt)
}
