//! Properties of the queue that hold after any sequence of calls, and a test of each policy.

mod eviction;
mod saturation;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Arrival, Detector, Queue, QueueFull, Settings, Stage};
use crate::config::EndpointPickerConfig;

const HEAD: &str = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n";

fn settings(body: &str) -> Settings {
    Settings::from_config(&EndpointPickerConfig::parse(&format!("{HEAD}{body}")).unwrap()).unwrap()
}

fn queue(body: &str) -> Queue<u32> {
    Queue::new(settings(body))
}

fn from(flow: &str, priority: i32) -> Arrival<'_> {
    Arrival { priority, flow, bytes: 1, within_ms: None }
}

fn drained(queue: &mut Queue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| queue.pop(0.0, 0)).collect()
}

#[test]
fn bands_go_by_priority_and_an_unknown_priority_waits_in_band_0() {
    let mut queue = queue("");
    queue.provision([5, -3]);
    for (item, priority) in [(0, -3), (1, 0), (2, 5), (3, 9)] {
        queue.push(from("a", priority), item, 0).unwrap();
    }
    assert_eq!(drained(&mut queue), [2, 1, 3, 0]);
}

#[test]
fn flows_take_turns_where_fairness_says_so() {
    let fair = "flowControl: {defaultPriorityBand: {fairnessPolicyRef: round-robin-fairness-policy}}\n";
    for (body, expected) in [("", [0, 1, 2, 3]), (fair, [0, 3, 1, 2])] {
        let mut queue = queue(body);
        for (item, flow) in [(0, "a"), (1, "a"), (2, "a"), (3, "b")] {
            queue.push(from(flow, 0), item, 0).unwrap();
        }
        assert_eq!(drained(&mut queue), expected, "{body}");
    }
}

#[test]
fn a_deadline_comes_before_none() {
    let mut queue =
        queue("flowControl: {defaultPriorityBand: {orderingPolicyRef: slo-deadline-ordering-policy}}\n");
    for (item, within_ms) in [(0, None), (1, Some(900)), (2, Some(100))] {
        queue.push(Arrival { within_ms, ..from("a", 0) }, item, 0).unwrap();
    }
    assert_eq!(drained(&mut queue), [2, 1, 0]);
}

#[test]
fn a_saturated_pool_gets_nothing_and_time_runs_out() {
    let mut queue = queue("flowControl: {defaultRequestTTL: 1s}\n");
    queue.push(from("a", 0), 7, 10).unwrap();
    assert_eq!((queue.pop(1.0, 0), queue.pop(f64::NAN, 0)), (None, None));
    assert_eq!((queue.expired(1009, true), queue.expired(1010, true)), (None, Some(7)));
    assert!(queue.is_empty());
}

#[test]
fn each_band_has_its_own_time_to_live_and_an_empty_pool_another() {
    let of = |body: &str| {
        let mut queue = queue(&format!("flowControl: {{{body}}}\n"));
        queue.provision([5, -3]);
        for (item, priority) in [(0, 0), (1, 5), (2, -3)] {
            queue.push(from("a", priority), item, 0).unwrap();
        }
        move |now: u64, has_endpoints: bool| {
            let mut gone: Vec<_> = std::iter::from_fn(|| queue.expired(now, has_endpoints)).collect();
            gone.sort_unstable();
            gone
        }
    };
    let mut usual = of("");
    assert_eq!((usual(59_999, true), usual(60_000, true)), (vec![], vec![0, 1, 2]));
    let bands = "defaultRequestTTL: 3s, priorityBands: [{priority: 5, defaultRequestTTL: 0s}], \
                 defaultNegativePriorityBand: {defaultRequestTTL: 1s}";
    let mut bands = of(bands);
    assert_eq!((bands(999, true), bands(1000, true), bands(3000, true)), (vec![], vec![2], vec![0]));
    assert_eq!(
        (bands(u64::MAX, true), bands(u64::MAX, false)),
        (vec![], vec![]),
        "0s is no limit, for empty pools too"
    );
    let mut empty = of("defaultRequestTTL: 0s, noEndpointRequestTTL: 2s");
    assert_eq!(
        (empty(u64::MAX, true), empty(1999, false), empty(2000, false)),
        (vec![], vec![], vec![0, 1, 2])
    );
    let ordered = "defaultPriorityBand: {orderingPolicyRef: edf-ordering-policy}, priorityBands: [{priority: 5, maxBytes: 1, \
                   defaultRequestTTL: never}]";
    let config = EndpointPickerConfig::parse(&format!("{HEAD}flowControl: {{{ordered}}}\n")).unwrap();
    let error = Settings::from_config(&config).unwrap_err().to_string();
    assert!(
        error.contains("flowControl.priorityBands[0].defaultRequestTTL: expected a duration such as 60s"),
        "{error}"
    );
}

#[test]
fn the_fullest_of_several_detectors_counts_for_its_stages() {
    let of = |parameters: &str| {
        let body = format!(
            "plugins: [{{type: max-saturation-detector, parameters: {parameters}}}, {{type: concurrency-detector, name: c, \
             parameters: {{maxConcurrency: 7}}}}, {{type: queue-scorer}}]\n\
             flowControl: {{saturationDetector: {{pluginRef: max-saturation-detector}}}}\n"
        );
        let config = EndpointPickerConfig::parse(&format!("{HEAD}{body}")).unwrap();
        crate::Scheduler::new(&config, crate::Options::default())?;
        Settings::from_config(&config)
    };
    let settings = of("{detectors: [c, utilization-detector], stages: {c: [decode]}}").unwrap();
    let Detector::Max(several) = &settings.detector else { panic!("{settings:?}") };
    assert_eq!((several[0].name.as_str(), several[0].stages.as_slice()), ("c", &[Stage::Decode][..]));
    assert!(matches!(several[0].detector, Detector::Concurrency { requests: 7, .. }));
    assert_eq!(several[1].stages, Stage::ALL);
    for (parameters, wrong) in [
        ("{}", "expected at least one detector"),
        ("{detectors: []}", "expected at least one detector"),
        ("{detectors: [c, c]}", "detectors[1]: \"c\" is listed twice"),
        ("{detectors: [queue-scorer]}", "the plugin of this name has another type"),
        ("{detectors: [max-saturation-detector]}", "the plugin of this name has another type"),
        (
            "{detectors: [nobody]}",
            "detectors[0] of plugin \"max-saturation-detector\" refers to plugin \"nobody\"",
        ),
        ("{detectors: [c], stages: {d: [decode]}}", "stages: \"d\" is not one of detectors"),
        ("{detectors: [c], stages: {c: []}}", "stages.c: expected prefill, decode or both"),
        ("{detectors: [c], stages: {c: [encode]}}", "expected one of prefill, decode, found \"encode\""),
        ("{detectors: [c], headroom: 1}", "headroom"),
    ] {
        let error = of(parameters).unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
    let used = "plugins: [{type: max-saturation-detector, parameters: {detectors: [concurrency-detector]}}]\n\
                schedulingProfiles: [{name: default, plugins: [{pluginRef: max-saturation-detector}]}]\n";
    let loaded = crate::config::load(&format!("{HEAD}{used}"), &[], crate::Options::default()).unwrap();
    let idle = "schedulingProfiles[0].plugins[0]: no effect: plugin \"max-saturation-detector\" is no filter, scorer or picker, \
                and works without being used in a profile";
    assert_eq!(loaded.warnings(), [idle]);
}

#[test]
fn room_is_held_back_from_low_priorities() {
    let mut queue = queue(
        "plugins: [{type: priority-holdback-policy, parameters: {minCeiling: 0.5}}]
flowControl: {usageLimitPolicyPluginRef: priority-holdback-policy}\n",
    );
    queue.provision([10]);
    queue.push(from("a", 0), 0, 0).unwrap();
    assert_eq!(queue.pop(0.7, 0), None);
    queue.push(from("a", 10), 1, 0).unwrap();
    assert_eq!((queue.pop(0.7, 0), queue.pop(0.4, 0)), (Some(1), Some(0)));
}

#[test]
fn wrong_settings_are_refused_by_name() {
    for (body, named) in [
        ("flowControl: {maxRequest: 1}\n", "maxRequest"),
        ("flowControl: {maxBytes: many}\n", "maxBytes"),
        ("flowControl: {enableEviction: 1}\n", "enableEviction: expected true or false, found 1"),
        ("flowControl: {priorityBands: [{maxRequests: 1}]}\n", "priority"),
        ("flowControl: {defaultRequestTTL: soon}\n", "defaultRequestTTL"),
        (
            "plugins: [{type: priority-holdback-policy}]\nflowControl: {usageLimitPolicyPluginRef: priority-holdback-policy}\n",
            "minCeiling",
        ),
        (
            "plugins: [{type: priority-holdback-policy, parameters: {minCeiling: 0.5, maxCeiling: 0.5}}]\nflowControl: {usageLimitPolicyPluginRef: priority-holdback-policy}\n",
            "minCeiling: expected 0 or more, and less than maxCeiling (0.5), found 0.5",
        ),
        (
            "plugins: [{type: priority-holdback-policy, parameters: {minCeiling: 0.5, maxCeiling: 1.5}}]\nflowControl: {usageLimitPolicyPluginRef: priority-holdback-policy}\n",
            "maxCeiling: expected a number above 0, and at most 1, found 1.5",
        ),
    ] {
        let config = EndpointPickerConfig::parse(&format!("{HEAD}{body}")).unwrap();
        let error = Settings::from_config(&config).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push { priority: i32, flow: u8, bytes: u64 },
    Pop(f64),
    Cancel(usize),
    Expire,
    Provision(Vec<i32>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (-2..3, 0..3u8, 0..40u64).prop_map(|(priority, flow, bytes)| Step::Push { priority, flow, bytes }),
        2 => (0.0..1.3f64).prop_map(Step::Pop),
        1 => (0..8usize).prop_map(Step::Cancel),
        1 => Just(Step::Expire),
        1 => prop::collection::vec(-2..3, 0..3).prop_map(Step::Provision),
    ]
}

proptest! {
    #[test]
    fn no_request_is_lost_or_doubled_and_no_limit_is_passed(steps in prop::collection::vec(step(), 0..120)) {
        let mut queue = queue(
            "flowControl: {maxRequests: 9, maxBytes: 150, defaultRequestTTL: 20ms, defaultPriorityBand: {maxRequests: 4, fairnessPolicyRef: round-robin-fairness-policy}, defaultNegativePriorityBand: {maxBytes: 60, orderingPolicyRef: edf-ordering-policy}}\n",
        );
        let mut inside = BTreeSet::new();
        let mut tickets = Vec::new();
        for (now, step) in (0u32..).zip(steps) {
            match step {
                Step::Push { priority, flow, bytes } => {
                    let flow = flow.to_string();
                    let arrival = Arrival { priority, flow: &flow, bytes, within_ms: None };
                    match queue.push(arrival, now, now.into()) {
                        Ok(ticket) => {
                            inside.insert(now);
                            tickets.push(ticket);
                        }
                        Err(QueueFull) => prop_assert!(!inside.is_empty() || bytes > 60),
                    }
                }
                Step::Pop(saturation) => {
                    let popped = queue.pop(saturation, 0);
                    prop_assert_eq!(popped.is_some(), saturation < 1.0 && !inside.is_empty());
                    prop_assert!(popped.is_none_or(|item| inside.remove(&item)));
                }
                Step::Cancel(index) => {
                    let taken = tickets.get(index).and_then(|ticket| queue.cancel(*ticket));
                    prop_assert!(taken.is_none_or(|item| inside.remove(&item)));
                }
                Step::Expire => while let Some(item) = queue.expired(now.into(), true) {
                    prop_assert!(now - item >= 20 && inside.remove(&item));
                },
                Step::Provision(priorities) => queue.provision(priorities),
            }
            prop_assert_eq!(queue.len(), inside.len());
            prop_assert!(queue.len() <= 9 && queue.bytes() <= 150);
        }
        while let Some(item) = queue.take_any() {
            prop_assert!(inside.remove(&item));
        }
        prop_assert!(inside.is_empty() && queue.bytes() == 0);
    }
}

/// A waiting request of a model of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WaitingRequest {
    item: u32,
    priority: i32,
    flow: u8,
    /// The number of requests of its band that were admitted while it was the first of its flow.
    passed: usize,
}

proptest! {
    #[test]
    fn the_highest_band_goes_first_and_no_flow_of_it_starves(
        steps in prop::collection::vec(prop::option::weighted(0.6, (-2..3, 0..4u8)), 1..150),
        fair in any::<bool>(),
    ) {
        let policy = if fair { "round-robin-fairness-policy" } else { "global-strict-fairness-policy" };
        let band = format!("{{fairnessPolicyRef: {policy}}}");
        let mut queue = queue(&format!(
            "flowControl: {{defaultPriorityBand: {band}, defaultNegativePriorityBand: {band}}}\n"
        ));
        queue.provision(-2..3);
        let mut waiting: Vec<WaitingRequest> = Vec::new();
        for (item, step) in (0u32..).zip(steps) {
            if let Some((priority, flow)) = step {
                let name = flow.to_string();
                queue.push(Arrival { priority, flow: &name, bytes: 1, within_ms: None }, item, item.into()).unwrap();
                waiting.push(WaitingRequest { item, priority, flow, passed: 0 });
                continue;
            }
            let Some(popped) = queue.pop(0.0, item.into()) else {
                prop_assert!(waiting.is_empty());
                continue;
            };
            let at = waiting.iter().position(|waiting| waiting.item == popped).unwrap();
            let gone = waiting.remove(at);
            prop_assert!(waiting.iter().all(|other| other.priority <= gone.priority), "a higher band waits");
            let mut heads = BTreeSet::new();
            for other in waiting.iter_mut().filter(|other| other.priority == gone.priority) {
                if !heads.insert(other.flow) {
                    continue;
                }
                if fair {
                    prop_assert!(other.flow != gone.flow || other.item > gone.item, "a flow keeps its order");
                    other.passed = if other.flow == gone.flow { 0 } else { other.passed + 1 };
                    // With four flows, at most the three others have a turn before it.
                    prop_assert!(other.passed <= 4, "flow {} starves", other.flow);
                } else {
                    prop_assert!(other.item > gone.item, "who came first goes first");
                }
            }
        }
    }
}

#[test]
fn the_flow_that_was_served_least_comes_next() {
    let fair = "plugins: [{type: program-aware-fairness, parameters: {lasHalfLifeSeconds: 10}}]\nflowControl: {defaultPriorityBand: {fairnessPolicyRef: program-aware-fairness}}\n";
    let mut queue = Queue::new(settings(fair));
    queue.served("greedy", (100, 500), 0);
    queue.served("modest", (100, 0), 0);
    for (at, flow) in ["greedy", "greedy", "modest", "new", "modest"].into_iter().enumerate() {
        queue.push(Arrival { priority: 0, flow, bytes: 1, within_ms: None }, flow, at as u64).unwrap();
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(0.0, 10)).collect();
    assert_eq!(order, ["new", "modest", "modest", "greedy", "greedy"]);
    // After many half-lives, old service counts as nothing, and the wait decides.
    let late = 3_600_000;
    queue.served("modest", (200, 0), late);
    for (at, flow) in [(late - 5, "modest"), (late, "greedy")] {
        queue.push(Arrival { priority: 0, flow, bytes: 1, within_ms: None }, flow, at).unwrap();
    }
    assert_eq!(queue.pop(0.0, late), Some("greedy"));
    assert_eq!(queue.pop(0.0, late), Some("modest"));
}

#[test]
fn flows_that_were_not_served_for_long_are_forgotten_and_their_number_is_bounded() {
    let fair = "plugins: [{type: program-aware-fairness, parameters: {evictionTtlSeconds: 0.5, evictionSweepSeconds: 0.5}}]\nflowControl: {defaultPriorityBand: {fairnessPolicyRef: program-aware-fairness}}\n";
    let mut queue: Queue<u32> = Queue::new(settings(fair));
    for flow in 0..20_000_u32 {
        queue.served(&flow.to_string(), (1, 1), 0);
    }
    assert_eq!(queue.remembered_flows(), 10_000);
    queue.served("last", (1, 1), 5_000);
    assert_eq!(queue.remembered_flows(), 1);
}
