//! Prefill and decode of different revisions.

use super::{RequestHeaders, pick_as, pool, scheduler};
use longboat_api::labels::KV_REVISION;

use crate::{Decision, Metrics};

const PROFILES: &str = "schedulingProfiles:
- name: decode
  plugins: [{pluginRef: decode-filter}]
- name: prefill
  plugins: [{pluginRef: prefill-filter}]
";

/// Picks from endpoints that are given by role and revision.
fn pick(order: &str, endpoints: &[(&str, Option<&str>)], seed: u64) -> Decision {
    let labels: Vec<Vec<(&str, &str)>> = endpoints
        .iter()
        .map(|&(role, revision)| {
            let revision = revision.map(|revision| (KV_REVISION, revision));
            [("llm-d.ai/role", role)].into_iter().chain(revision).collect()
        })
        .collect();
    let pool = pool(labels.iter().map(|labels| (Metrics::default(), labels.as_slice())).collect());
    let handler = match order {
        "decode-first" => "deciders: {prefill: always-disagg-pd-decider}",
        order => &format!("stageOrder: {order}"),
    };
    let scheduler = scheduler(
        &format!(
            "{{type: decode-filter}}, {{type: prefill-filter}}, {{type: random-picker}}, {{type: always-disagg-pd-decider}}, \
             {{type: disagg-profile-handler, parameters: {{{handler}}}}}"
        ),
        PROFILES,
    );
    pick_as(&scheduler, &scheduler.state(), &pool, (0, &RequestHeaders::default(), seed)).unwrap()
}

/// Returns the endpoint that decodes, and the endpoint that prefills if there is one.
fn pair(decision: &Decision) -> (usize, Option<usize>) {
    let target = |name: &str| Some(decision.runs.iter().find(|run| run.name == name)?.targets[0]);
    let is_sent = decision.set_headers.iter().any(|(name, _)| *name == "x-prefiller-host-port");
    assert_eq!(is_sent, !decision.remove_headers.contains(&"x-prefiller-host-port"));
    (decision.runs[decision.primary].targets[0], target("prefill").filter(|_| is_sent))
}

#[test]
fn only_pods_of_one_revision_are_paired() {
    let endpoints =
        [("decode", Some("a")), ("decode", Some("b")), ("prefill", Some("a")), ("prefill", Some("b"))];
    for order in ["decode-first", "prefill-first"] {
        let mut pairs = [0; 2];
        for seed in 0..64 {
            match pair(&pick(order, &endpoints, seed)) {
                (0, Some(2)) => pairs[0] += 1,
                (1, Some(3)) => pairs[1] += 1,
                other => panic!("{order}: {other:?}"),
            }
        }
        assert!(pairs.iter().all(|count| *count > 0), "{order}: both revisions serve: {pairs:?}");
    }
}

#[test]
fn a_pod_that_does_not_say_its_revision_goes_with_all() {
    let endpoints = [("decode", Some("a")), ("prefill", None), ("prefill", Some("b"))];
    for seed in 0..16 {
        assert_eq!(pair(&pick("decode-first", &endpoints, seed)), (0, Some(1)));
    }
    let endpoints = [("decode", None), ("prefill", Some("a")), ("prefill", Some("b"))];
    let prefillers = (0..32).filter_map(|seed| pair(&pick("decode-first", &endpoints, seed)).1);
    assert_eq!(prefillers.collect::<std::collections::BTreeSet<_>>(), [1, 2].into());
}

#[test]
fn where_nobody_can_be_paired_the_decoder_does_both() {
    let endpoints = [("decode", Some("b")), ("prefill", Some("a"))];
    for order in ["decode-first", "prefill-first"] {
        assert_eq!(pair(&pick(order, &endpoints, 7)), (0, None), "{order}");
    }
}
