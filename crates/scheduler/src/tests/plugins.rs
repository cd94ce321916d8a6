//! Tests of single plugins: the endpoints that they keep, their scores, and the parameters that they refuse.

use super::{RequestHeaders, pick_as, pool, scheduler, try_scheduler};
use crate::{Metrics, ScheduleError, Snapshot};

fn kept(plugin: &str, pool: &[Snapshot]) -> Vec<usize> {
    let scheduler = scheduler(plugin, "");
    match pick_as(&scheduler, &scheduler.state(), pool, (0, &RequestHeaders::default(), 7)) {
        Ok(decision) => decision.primary_run().totals.iter().map(|&(candidate, _)| candidate).collect(),
        Err(_) => Vec::new(),
    }
}

fn scored(plugin: &str, pool: &[Snapshot]) -> Vec<f64> {
    let scheduler = scheduler(plugin, "");
    let decision = pick_as(&scheduler, &scheduler.state(), pool, (0, &RequestHeaders::default(), 7)).unwrap();
    decision.primary_run().trace[0].scores.iter().map(|&(_, score)| score).collect()
}

fn refused(plugin: &str) -> String {
    try_scheduler(plugin, "").unwrap_err().to_string()
}

fn with(attribute: Option<f64>) -> (Metrics, &'static [(&'static str, &'static str)]) {
    let custom = attribute.into_iter().map(|value| ("load".to_owned(), value)).collect();
    (Metrics { custom, ..Metrics::default() }, &[])
}

#[test]
fn an_attribute_below_its_threshold_keeps_an_endpoint() {
    let pool = pool(vec![with(Some(3.0)), with(Some(10.0)), with(None), with(Some(11.0))]);
    let filter = |operator: &str, more: &str| {
        format!(
            "{{type: endpoint-attribute-filter, parameters: {{attribute: load, {more}algorithm: {{type: threshold, threshold: {{operator: {operator}, value: 10}}}}}}}}"
        )
    };
    assert_eq!(kept(&filter("LessThan", ""), &pool), [0, 2]);
    assert_eq!(kept(&filter("LessThanOrEqual", "onMissing: Fail, "), &pool), [0, 1]);
    assert_eq!(kept(&filter("GreaterThan", ""), &pool), [2, 3]);
    assert_eq!(kept(&filter("GreaterThanOrEqual", "onMissing: Fail, "), &pool), [1, 3]);
    assert_eq!(kept(&filter("Equal", "producer: core-metrics-extractor, "), &pool), [1, 2]);
    assert_eq!(kept(&filter("NotEqual", ""), &pool), [0, 2, 3]);
    let none = pool[3..].to_vec();
    assert!(kept(&filter("LessThan", ""), &none).is_empty());
    assert_eq!(kept(&filter("LessThan", "fallbackOnEmpty: true, "), &none), [0]);
    assert!(refused(&filter("Below", "")).contains("Below"));
    assert!(refused(&filter("Equal", "producer: dcgm-extractor, ")).contains("dcgm-extractor"));
    assert!(refused("{type: endpoint-attribute-filter}").contains("algorithm.type"));
}

#[test]
fn an_attribute_is_scored_by_its_place_in_the_range() {
    let pool = pool(vec![with(Some(2.0)), with(Some(6.0)), with(None), with(Some(4.0))]);
    let scorer = |kind: &str, normalization: &str| {
        format!(
            "{{type: endpoint-attribute-scorer, parameters: {{attributeKey: load, algorithm: {{type: {kind}, normalization: {{{normalization}}}}}}}}}"
        )
    };
    assert_eq!(scored(&scorer("linear_lower_is_better", ""), &pool), [1.0, 0.0, 0.0, 0.5]);
    assert_eq!(scored(&scorer("linear_higher_is_better", "adaptiveRange: {}"), &pool), [0.0, 1.0, 0.0, 0.5]);
    let fixed = "fixedRange: {min: 3, max: 5}";
    assert_eq!(scored(&scorer("linear_lower_is_better", fixed), &pool), [1.0, 0.0, 0.0, 0.5]);
    assert_eq!(scored(&scorer("linear_lower_is_better", ""), &pool[..1]), [1.0]);
    assert!(refused(&scorer("linear_lower_is_better", "fixedRange: {min: 1, max: 1}")).contains("min"));
    assert!(refused(&scorer("linear_lower_is_better", "fixedRange: {min: .nan, max: 1}")).contains("min"));
    assert!(
        refused(&scorer("linear_lower_is_better", "fixedRange: {max: 1}, adaptiveRange: {}"))
            .contains("not both")
    );
    assert!(refused(&scorer("percentile", "")).contains("algorithm.type"));
}

const DISAGGREGATED: &str = "schedulingProfiles:
- name: decode
  plugins: [{pluginRef: decode-filter}]
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: near}]
";

/// Applies `plugin` to prefill endpoints at various distances from a decode endpoint on host a, in rack r, zone z and region
/// g. Returns the endpoints that it keeps and their scores.
fn near(plugin: &str, topology: &str) -> (Vec<usize>, Vec<f64>) {
    let place = |host: &'static str, rack: &'static str, zone: &'static str| {
        vec![
            ("kubernetes.io/hostname", host),
            ("topology.kubernetes.io/rack", rack),
            ("topology.kubernetes.io/zone", zone),
            ("topology.kubernetes.io/region", "g"),
        ]
    };
    let mut places = [
        place("a", "r", "z"),
        place("a", "r", "z"),
        place("b", "r", "z"),
        place("c", "s", "z"),
        place("d", "t", "y"),
        vec![],
    ];
    for (index, labels) in places.iter_mut().enumerate() {
        labels.push(("llm-d.ai/role", if index == 0 { "decode" } else { "prefill" }));
    }
    let pool = pool(places.iter().map(|labels| (Metrics::default(), labels.as_slice())).collect());
    let plugins = format!(
        "{{type: topology-extractor{topology}}}, {{type: decode-filter}}, {{type: prefill-filter}}, {{type: always-disagg-pd-decider}}, \
         {{type: disagg-profile-handler, parameters: {{deciders: {{prefill: always-disagg-pd-decider}}}}}}, {plugin}"
    );
    let scheduler = scheduler(&plugins, DISAGGREGATED);
    let decision =
        pick_as(&scheduler, &scheduler.state(), &pool, (0, &RequestHeaders::default(), 7)).unwrap();
    let prefill = decision.runs.iter().find(|run| run.name == "prefill").unwrap();
    let scores = prefill.trace.first().map(|trace| trace.scores.iter().map(|&(_, score)| score).collect());
    (prefill.totals.iter().map(|&(candidate, _)| candidate).collect(), scores.unwrap_or_default())
}

#[test]
fn prefill_is_looked_for_near_the_decoder() {
    let filter = |level: &str| {
        format!("{{type: topology-affinity-filter, name: near, parameters: {{minAffinity: {level}}}}}")
    };
    assert_eq!(near(&filter("host"), "").0, [1]);
    assert_eq!(near(&filter("rack"), "").0, [1, 2]);
    assert_eq!(near(&filter("zone"), "").0, [1, 2, 3]);
    assert_eq!(near(&filter("region"), "").0, [1, 2, 3, 4]);
    let unknown = ", parameters: {hostname: none, rack: none, zone: none, region: none}";
    assert_eq!(near(&filter("host"), unknown).0, [1, 2, 3, 4, 5], "it is not known where the decoder is");
    let scorer = "{type: topology-affinity-scorer, name: near}";
    assert_eq!(near(scorer, "").1, [1.0, 0.2, 0.05, 0.02, 0.0]);
    assert_eq!(near(scorer, unknown).1, [0.0; 5]);
    let alone = scheduler("{type: topology-affinity-scorer}, {type: topology-affinity-filter}", "").warnings;
    assert!(alone.len() == 2 && alone[0].contains("declare a topology-extractor"), "{alone:?}");
    assert!(refused(&format!("{{type: topology-extractor}}, {}", filter("cell"))).contains("cell"));
    let other = "{type: topology-extractor, name: place}, {type: topology-affinity-scorer, parameters: {topologyProducerName: plce}}";
    assert!(refused(other).contains("did you mean \"place\"?"), "{}", refused(other));
}

#[test]
fn decode_is_looked_for_near_the_prefiller_that_was_picked_first() {
    let labels = |role, host| [("llm-d.ai/role", role), ("kubernetes.io/hostname", host)];
    let places = [labels("prefill", "a"), labels("decode", "b"), labels("decode", "a")];
    let pool = pool(places.iter().map(|labels| (Metrics::default(), labels.as_slice())).collect());
    let scheduler = scheduler(
        "{type: topology-extractor}, {type: decode-filter}, {type: prefill-filter}, {type: topology-affinity-filter}, \
         {type: disagg-profile-handler, parameters: {stageOrder: prefill-first}}",
        "schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}]}, {name: decode, plugins: \
         [{pluginRef: decode-filter}, {pluginRef: topology-affinity-filter}]}]",
    );
    let decision =
        pick_as(&scheduler, &scheduler.state(), &pool, (0, &RequestHeaders::default(), 7)).unwrap();
    assert_eq!(decision.primary_run().name, "decode");
    assert_eq!(
        decision.primary_run().totals.iter().map(|&(candidate, _)| candidate).collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn without_an_earlier_pick_nothing_is_near() {
    let pool = pool(vec![(Metrics::default(), &[("kubernetes.io/hostname", "a")]); 2]);
    let both =
        "{type: topology-extractor}, {type: topology-affinity-filter}, {type: topology-affinity-scorer}";
    assert_eq!(kept(both, &pool), [0, 1]);
    assert_eq!(scored(both, &pool), [0.0, 0.0]);
}

#[test]
fn limits_out_of_their_range_and_unknown_producers_are_refused() {
    for (plugin, named) in [
        ("{type: context-length-aware, parameters: {label: ''}}", "label: it is required"),
        ("{type: concurrency-detector, parameters: {maxConcurrency: 0}}", "maxConcurrency"),
        ("{type: concurrency-detector, parameters: {maxTokenConcurrency: 0}}", "maxTokenConcurrency"),
        (
            "{type: concurrency-detector, parameters: {inFlightLoadProducerName: x}}",
            "inFlightLoadProducerName",
        ),
        (
            "{type: utilization-filter, parameters: {conditions: [{metric: waiting-queue, maxValue: -1}]}}",
            "conditions[0].maxValue",
        ),
        (
            "{type: utilization-filter, parameters: {conditions: [{metric: kv-cache-utilization, maxValue: 2}]}}",
            "conditions[0].maxValue",
        ),
        ("{type: prefix-cache-affinity-filter, parameters: {affinityThreshold: 1.1}}", "affinityThreshold"),
        ("{type: prefix-cache-affinity-filter, parameters: {maxTTFTPenaltyMs: -1}}", "maxTTFTPenaltyMs"),
        (
            "{type: prefix-cache-affinity-filter, parameters: {peakPrefillThroughput: 0}}",
            "peakPrefillThroughput",
        ),
    ] {
        assert!(refused(plugin).contains(named), "{plugin}: {}", refused(plugin));
    }
    for plugin in [
        "{type: concurrency-detector, parameters: {inFlightLoadProducerName: l}}, {type: inflight-load-producer, name: l}",
        "{type: utilization-filter, parameters: {inFlightLoadProducerName: '', conditions: [{metric: active-requests, maxValue: 2}]}}",
        "{type: prefix-cache-affinity-filter, parameters: {peakPrefillThroughput: 0, maxTTFTPenaltyMs: 0}}",
    ] {
        scheduler(plugin, "");
    }
}

fn busy(waiting: f64, kv_usage: f64) -> (Metrics, &'static [(&'static str, &'static str)]) {
    (Metrics { waiting, kv_usage, ..Metrics::default() }, &[])
}

#[test]
fn detectors_drop_full_endpoints() {
    let detector = |more: &str| format!("{{type: utilization-detector, parameters: {{{more}}}}}");
    let mut pool = pool(vec![busy(4.0, 0.7), busy(5.0, 0.0), busy(0.0, 0.8), busy(5.5, 0.85)]);
    assert_eq!(kept(&detector(""), &pool), [0]);
    assert_eq!(kept(&detector("headroom: 0.2"), &pool), [0, 1, 2, 3]);
    assert_eq!(kept(&detector(""), &pool[1..]), [0, 1, 2], "all are full, so all stay");
    pool[0].fresh = false;
    assert_eq!(kept(&detector("queueDepthThreshold: 6"), &pool), [1], "old metrics say nothing");
    assert!(refused(&detector("headroom: -1")).contains("headroom"));
}

#[test]
fn requests_in_flight_that_are_at_their_limit_close_an_endpoint() {
    let pool = pool(vec![busy(0.0, 0.0); 2]);
    for (parameters, admitted) in [
        ("maxConcurrency: 2", 4),
        ("maxConcurrency: 2, headroom: 0.5", 6),
        ("maxTokenConcurrency: 5, concurrencyMode: tokens", 6),
        ("maxConcurrency: 1, concurrencyMode: hybrid", 2),
    ] {
        let scheduler =
            scheduler(&format!("{{type: concurrency-detector, parameters: {{{parameters}}}}}"), "");
        let mut state = scheduler.state();
        let mut taken = 0;
        while let Ok(decision) = pick_as(&scheduler, &state, &pool, (0, &RequestHeaders::default(), 7)) {
            let _held = scheduler.commit(&mut state, &decision);
            taken += 1;
            assert!(taken < 100);
        }
        assert_eq!(taken, admitted, "{parameters}");
    }
}

#[test]
fn the_fuller_the_pool_the_more_sheddable_requests_are_dropped() {
    let admitted = |waiting: f64, priority: i32| {
        let scheduler = scheduler("{type: probabilistic-admitter}, {type: random-picker}", "");
        let state = scheduler.state();
        let pool = pool(vec![busy(waiting, 0.0); 3]);
        let picks = (0..2000).filter(|&seed| {
            match pick_as(&scheduler, &state, &pool, (priority, &RequestHeaders::default(), seed)) {
                Ok(_) => true,
                Err(error) => {
                    assert_eq!(error, ScheduleError::NotAdmitted);
                    false
                }
            }
        });
        picks.count()
    };
    assert_eq!(admitted(100.0, 0), 2000, "nobody else is dropped");
    assert_eq!(admitted(0.0, -1), 2000);
    // A saturation of 0.2: 0.2⁵ · 300 = 0.096.
    assert!((1740..1880).contains(&admitted(1.0, -1)), "{}", admitted(1.0, -1));
    // 0.3⁵ · 300 = 0.729.
    assert!((460..630).contains(&admitted(1.5, -1)), "{}", admitted(1.5, -1));
    assert_eq!(admitted(2.0, -1), 0);
    assert!(refused("{type: probabilistic-admitter, parameters: {power: 0}}").contains("power"));
}

#[test]
fn notification_sources_follow_pods_only() {
    let source = |kind: &str| {
        format!(
            "{{type: queue-scorer}}, {{type: k8s-notification-source, parameters: {{version: v1, kind: {kind}}}}}"
        )
    };
    scheduler(&source("Pod"), "");
    assert!(refused(&source("Service")).contains("\"Service\""));
    assert!(refused("{type: k8s-notification-source}").contains("required"));
    scheduler("{type: queue-scorer}, {type: endpoint-notification-source}", "");
}
