//! The 19 configurations that the reference publishes with its release 0.10. Its own binary loads 18 of them.

use crate::{Options, Scheduler, config::EndpointPickerConfig};

/// A published configuration: its file, its plugins, the rest of the document, and the name in our error if it does not load.
struct PublishedConfig {
    file: &'static str,
    plugins: &'static str,
    rest: &'static str,
    refused: Option<&'static [&'static str]>,
}

const fn loads(file: &'static str, plugins: &'static str, rest: &'static str) -> PublishedConfig {
    PublishedConfig { file, plugins, rest, refused: None }
}

/// Takes tokens from a model server.
const TOKENS: &str =
    "{type: token-producer, parameters: {modelName: org/model, vllm: {url: 'http://localhost:8000'}}}";

const PUBLISHED: &[PublishedConfig] = &[
    loads(
        "dp-epp-config",
        "{type: prefix-cache-scorer}, {type: decode-filter}, {type: max-score-picker}, \
         {type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, \
         {pluginRef: prefix-cache-scorer, weight: 2}]}]",
    ),
    loads(
        "epp-burst-prefix-cache-config",
        "TOKENS, {type: single-profile-handler}, {type: decode-filter}, {type: burst-prefix-cache-producer, \
             parameters: {windowDurationMs: 100, maxPerReplica: -1, minColocateBlocks: 0}}, {type: prefix-cache-scorer, \
             parameters: {prefixMatchInfoProducerName: burst-prefix-cache-producer}}, {type: load-aware-scorer}, \
             {type: max-score-picker}",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, \
             weight: 2.0}, {pluginRef: load-aware-scorer, weight: 1.0}, {pluginRef: max-score-picker}]}]",
    ),
    loads(
        "epp-config",
        "{type: prefix-cache-scorer}, {type: decode-filter}, {type: max-score-picker}, {type: single-profile-handler}",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, \
         {pluginRef: prefix-cache-scorer, weight: 2}]}]",
    ),
    loads(
        "epp-estimate-prefix-cache-config",
        "{type: single-profile-handler}, {type: decode-filter}, {type: prefix-cache-scorer}, {type: load-aware-scorer}, \
         {type: max-score-picker}",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, \
         weight: 1.0}, {pluginRef: load-aware-scorer, weight: 1.0}, {pluginRef: max-score-picker}]}]",
    ),
    // The reference does not load this configuration any more: its producer has no parameter cacheSizeInMB.
    loads(
        "epp-mm-embeddings-cache-config",
        "TOKENS, {type: endpoint-notification-source}, {type: metrics-data-source}, {type: core-metrics-extractor}, \
         {type: mm-embeddings-cache-producer, parameters: {cacheSizeInMB: 2048}}, {type: mm-embeddings-cache-scorer}, \
         {type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSize: 64}, indexerConfig: \
         {kvBlockIndexConfig: {enableMetrics: true}}}}, {type: prefix-cache-scorer, parameters: \
         {prefixMatchInfoProducerName: precise-prefix-cache-producer}}, {type: queue-scorer}, {type: max-score-picker}, \
         {type: single-profile-handler}, {type: decode-filter}",
        "dataLayer: {sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}, \
         {pluginRef: endpoint-notification-source, extractors: [{pluginRef: mm-embeddings-cache-producer}, \
         {pluginRef: precise-prefix-cache-producer}]}]}",
    ),
    loads(
        "epp-precise-prefix-cache-config",
        "TOKENS, {type: endpoint-notification-source}, {type: metrics-data-source}, {type: core-metrics-extractor}, \
         {type: single-profile-handler}, {type: decode-filter}, {type: precise-prefix-cache-producer, parameters: \
         {tokenProcessorConfig: {blockSize: 64}, indexerConfig: {kvBlockIndexConfig: {enableMetrics: true}}}}, \
         {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}, \
         {type: kv-cache-utilization-scorer}, {type: queue-scorer}, {type: max-score-picker}",
        "dataLayer: {sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}, \
         {pluginRef: endpoint-notification-source, extractors: [{pluginRef: precise-prefix-cache-producer}]}]}\n\
         schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, \
         weight: 2.0}, {pluginRef: kv-cache-utilization-scorer, weight: 1.0}, {pluginRef: queue-scorer, weight: 1.0}, \
         {pluginRef: max-score-picker}]}]",
    ),
    loads("pd-epp-config", PAIR, PAIR_PROFILES),
    loads(
        "pd-topology-epp-config",
        "PAIR, {type: topology-extractor}, {type: topology-affinity-filter}, {type: topology-affinity-scorer}",
        "schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: topology-affinity-filter}, \
         {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer, weight: 1}, \
         {pluginRef: topology-affinity-scorer, weight: 1}]}, {name: decode, plugins: [{pluginRef: decode-filter}, \
         {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer, weight: 1}]}]",
    ),
    loads(
        "probabilistic-admitter-epp-config",
        "{type: probabilistic-admitter}, {type: random-picker}, {type: utilization-detector, parameters: \
         {queueDepthThreshold: 999999999, kvCacheUtilThreshold: 1.0}}",
        "flowControl: {saturationDetector: {pluginRef: utilization-detector}}\n\
         schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]",
    ),
    loads(
        "sim-e-p-d-epp-config",
        "{type: queue-scorer}, {type: encode-filter}, {type: prefill-filter}, {type: decode-filter}, \
         {type: disagg-profile-handler, parameters: {deciders: {encode: always-disagg-multimodal-decider, \
         prefill: prefix-based-pd-decider}}}, {type: always-disagg-multimodal-decider}, {type: prefix-based-pd-decider, \
         parameters: {nonCachedTokens: 16}}",
        "schedulingProfiles: [{name: encode, plugins: [{pluginRef: encode-filter}]}, {name: prefill, plugins: \
         [{pluginRef: prefill-filter}, {pluginRef: queue-scorer, weight: 1}]}, {name: decode, plugins: \
         [{pluginRef: decode-filter}, {pluginRef: queue-scorer, weight: 1}]}]",
    ),
    loads(
        "sim-e-pd-epp-config",
        "{type: encode-filter}, {type: decode-filter}, {type: max-score-picker}, {type: always-disagg-multimodal-decider}, \
         {type: disagg-profile-handler, parameters: {deciders: {encode: always-disagg-multimodal-decider}}}",
        "schedulingProfiles: [{name: encode, plugins: [{pluginRef: encode-filter}]}, {name: decode, plugins: \
         [{pluginRef: decode-filter}]}]",
    ),
    loads(
        "sim-epp-config",
        "{type: approx-prefix-cache-producer, parameters: {maxPrefixTokensToMatch: 16384, lruCapacityPerServer: 31250}}, \
         {type: prefix-cache-scorer}, {type: decode-filter}, {type: max-score-picker}, {type: single-profile-handler}",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, \
         {pluginRef: prefix-cache-scorer, weight: 2}]}]",
    ),
    PublishedConfig {
        file: "sim-epp-gpu-config",
        plugins: "{type: dcgm-data-source, name: dcgm-source, parameters: {port: 9400, interval: 1s}}, {type: dcgm-extractor}, \
             {type: endpoint-attribute-filter, name: gpu-utilization-filter, parameters: {attribute: GPUUtilization, \
             producer: dcgm-extractor, onMissing: Pass, fallbackOnEmpty: true, algorithm: {type: threshold, threshold: \
             {operator: LessThanOrEqual, value: 0.90}}}}, {type: endpoint-attribute-scorer, name: gpu-utilization-scorer, \
             parameters: {attributeKey: GPUUtilization, producer: dcgm-extractor, algorithm: {type: linear_lower_is_better, \
             normalization: {fixedRange: {min: 0.0, max: 1.0}}}}}, {type: kv-cache-utilization-scorer}, \
             {type: max-score-picker}, {type: single-profile-handler}, {type: decode-filter}",
        rest: "dataLayer: {sources: [{pluginRef: dcgm-source, extractors: [{pluginRef: dcgm-extractor}]}]}",
        refused: Some(&["dcgm-source", "dcgm-extractor"]),
    },
    loads(
        "sim-epp-kvcache-config",
        "TOKENS, {type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSize: 16}, kvEventsConfig: \
         {zmqEndpoint: 'tcp://0.0.0.0:5557'}, indexerConfig: {kvBlockIndexConfig: {enableMetrics: false, \
         metricsLoggingInterval: 60000000000}}}}, {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: \
         precise-prefix-cache-producer}}, {type: decode-filter}, {type: max-score-picker}, {type: single-profile-handler}",
        PRECISE_PROFILE,
    ),
    loads(
        "sim-epp-no-hit-lru",
        "{type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSizeTokens: 5}}}, \
         {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}, \
         {type: no-hit-lru-scorer, parameters: {lruSize: 2048}}, {type: decode-filter}, {type: max-score-picker}, \
         {type: single-profile-handler}",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, \
         {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: no-hit-lru-scorer, weight: 1}]}]",
    ),
    loads(
        "sim-epp-tokenizer-vllm-http-config",
        "TOKENS, {type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSize: 16, hashSeed: '42'}, \
         kvEventsConfig: {zmqEndpoint: 'tcp://0.0.0.0:5557'}, indexerConfig: {kvBlockIndexConfig: {enableMetrics: false}}}}, \
         {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}, \
         {type: decode-filter}, {type: max-score-picker}, {type: single-profile-handler}",
        PRECISE_PROFILE,
    ),
    loads(
        "sim-pd-epp-config",
        "{type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 16, autoTune: false, maxPrefixTokensToMatch: \
         16384, lruCapacityPerServer: 31250}}, {type: prefix-cache-scorer}, {type: queue-scorer}, {type: prefill-filter}, \
         {type: decode-filter}, {type: max-score-picker}, {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 16}}, \
         {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}",
        PAIR_PROFILES,
    ),
    loads(
        "sim-program-aware-config",
        "{type: program-aware-fairness}, {type: queue-scorer}, {type: max-score-picker}, {type: single-profile-handler}",
        "featureGates: [flowControl]\n\
             flowControl: {defaultPriorityBand: {fairnessPolicyRef: program-aware-fairness}}\n\
             schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: max-score-picker}]}]",
    ),
    loads(
        "soft-reflective-ceiling-epp-config",
        "{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer}, \
         {type: soft-reflective-ceiling-policy}",
        "featureGates: [flowControl]\n\
         schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 2.0}, {pluginRef: \
         kv-cache-utilization-scorer, weight: 2.0}, {pluginRef: prefix-cache-scorer, weight: 3.0}]}]\n\
         flowControl: {usageLimitPolicyPluginRef: soft-reflective-ceiling-policy}",
    ),
];

/// Separate prefill and decode endpoints.
const PAIR: &str = "{type: approx-prefix-cache-producer, parameters: {maxPrefixTokensToMatch: 16384, lruCapacityPerServer: 31250}}, \
     {type: prefix-cache-scorer}, {type: queue-scorer}, {type: prefill-filter}, {type: decode-filter}, \
     {type: max-score-picker}, {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}, \
     {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 16}}";

const PAIR_PROFILES: &str = "schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: max-score-picker}, \
     {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer, weight: 1}]}, {name: decode, plugins: \
     [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, {pluginRef: prefix-cache-scorer, weight: 2}, \
     {pluginRef: queue-scorer, weight: 1}]}]";

const PRECISE_PROFILE: &str = "schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}, \
     {pluginRef: prefix-cache-scorer, weight: 10}]}]";

#[test]
#[expect(clippy::print_stderr, reason = "the count is the point of the test's output")]
fn published_configurations_load_or_are_refused_by_name() {
    let mut loaded = 0;
    let mut wrong = Vec::new();
    for PublishedConfig { file, plugins, rest, refused } in PUBLISHED {
        let plugins = plugins.replace("TOKENS", TOKENS).replace("PAIR", PAIR);
        let text = format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{plugins}]\n{rest}\n"
        );
        let options = Options { allow_experimental: true, trace: false };
        let outcome = EndpointPickerConfig::parse(&text).and_then(|config| Scheduler::new(&config, options));
        match (outcome, refused) {
            (Ok(_), None) => loaded += 1,
            (Err(error), Some(names)) => {
                let message = error.to_string();
                if !names.iter().all(|name| message.contains(name) && message.contains("because it needs")) {
                    wrong.push(format!("{file}: {message}"));
                }
            }
            (Ok(_), Some(_)) => wrong.push(format!("{file}: loads")),
            (Err(error), None) => wrong.push(format!("{file}: {error}")),
        }
    }
    eprintln!("{loaded} of {} published configurations load", PUBLISHED.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(PUBLISHED.len(), 19);
}
