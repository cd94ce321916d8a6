//! No plugin panics for any pool, any request and any numbers.

use proptest::prelude::*;
use rand::{SeedableRng, rngs::StdRng};

use super::{REQUEST, RequestHeaders, pool};
use crate::{
    LoraAdapters, Media, Metrics, Modality, Options, Prediction, Prompt, Request, Scheduler, Slot, Snapshot,
    config::EndpointPickerConfig, known_types,
};

/// The parameters that a type requires.
const PARAMETERS: &[(&str, &str)] = &[
    ("by-label", "{label: zone, validValues: [a]}"),
    (
        "endpoint-attribute-filter",
        "{attribute: x, algorithm: {type: threshold, threshold: {operator: LessThan, value: 1}}}",
    ),
    ("endpoint-attribute-scorer", "{attributeKey: x, algorithm: {type: linear_lower_is_better}}"),
    ("header-label-affinity-scorer", "{headerName: x-session-id, labelKey: zone}"),
    ("k8s-notification-source", "{version: v1, kind: Pod}"),
    ("label-selector-filter", "{matchLabels: {zone: a}}"),
    ("priority-holdback-policy", "{minCeiling: 0.5}"),
    ("max-saturation-detector", "{detectors: [utilization-detector]}"),
    ("utilization-filter", "{conditions: [{metric: waiting-queue, maxValue: 3}]}"),
];

/// The other plugin that a type requires.
const COMPANIONS: &[(&str, &str)] = &[
    ("token-load-scorer", "{type: inflight-load-producer}"),
    ("topology-affinity-filter", "{type: topology-extractor}"),
    ("topology-affinity-scorer", "{type: topology-extractor}"),
    (
        "prefix-based-pd-decider",
        "{type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}",
    ),
    (
        "always-disagg-pd-decider",
        "{type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}",
    ),
    (
        "always-disagg-multimodal-decider",
        "{type: disagg-profile-handler, parameters: {deciders: {encode: always-disagg-multimodal-decider}}}",
    ),
];

/// Builds a scheduler for each type that can be declared alone.
fn schedulers() -> Vec<(&'static str, Scheduler)> {
    let find = |table: &[(&str, &'static str)], name: &str| {
        table.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
    };
    let build = |name: &'static str| {
        let parameters =
            find(PARAMETERS, name).map(|found| format!(", parameters: {found}")).unwrap_or_default();
        let companion = find(COMPANIONS, name).map(|found| format!(", {found}")).unwrap_or_default();
        let profiles = if companion.contains("disagg")
            || name == "disagg-profile-handler"
            || name == "pd-profile-handler"
        {
            "schedulingProfiles: [{name: decode}, {name: prefill}, {name: encode}]\n"
        } else {
            ""
        };
        let text = format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n\
             plugins: [{{type: {name}{parameters}}}{companion}]\n{profiles}"
        );
        let options = Options { allow_experimental: true, trace: true };
        EndpointPickerConfig::parse(&text).and_then(|config| Scheduler::new(&config, options))
    };
    let scheduling = |name: &&str| {
        [
            "-filter",
            "-scorer",
            "-picker",
            "-handler",
            "-decider",
            "-admitter",
            "-detector",
            "-aware",
            "-hub",
            "-selector",
        ]
        .iter()
        .any(|ending| name.ends_with(ending))
            || *name == "by-label"
    };
    let types = known_types().into_iter().filter(scheduling);
    types.map(|name| (name, build(name).unwrap_or_else(|error| panic!("{name}: {error}")))).collect()
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        0.0..10.0_f64,
    ]
}

fn metrics() -> impl Strategy<Value = Metrics> {
    (number(), number(), number(), number(), any::<bool>(), any::<u32>()).prop_map(
        |(waiting, running, kv_usage, custom, lora, size)| Metrics {
            waiting,
            running,
            kv_usage,
            lora: lora.then(|| LoraAdapters {
                active: vec!["m".to_owned()],
                waiting: Vec::new(),
                max: size % 3,
            }),
            block_size: size % 300,
            num_blocks: size % 50,
            custom: [("x".to_owned(), custom)].into(),
        },
    )
}

const LABELS: [&[(&str, &str)]; 6] = [
    &[],
    &[("zone", "a"), ("llm-d.ai/role", "decode"), ("kubernetes.io/hostname", "h")],
    &[("llm-d.ai/role", "prefill"), ("kubernetes.io/hostname", "h")],
    &[("llm-d.ai/context-length-range", "0-18446744073709551615"), ("llm-d.ai/role", "encode")],
    &[("llm-d.ai/context-length-range", "9-1"), ("zone", "")],
    &[("llm-d.ai/context-length-range", "x"), ("llm-d.ai/role", "both")],
];

fn any_pool() -> impl Strategy<Value = Vec<Snapshot>> {
    prop::collection::vec((metrics(), 0..LABELS.len(), any::<bool>()), 0..6).prop_map(|members| {
        let fresh: Vec<bool> = members.iter().map(|(_, _, fresh)| *fresh).collect();
        let members = members.into_iter().map(|(metrics, labels, _)| (metrics, LABELS[labels])).collect();
        let mut pool = pool(members);
        for (snapshot, fresh) in pool.iter_mut().zip(fresh) {
            snapshot.fresh = fresh;
        }
        pool
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_plugin_panics_on_any_pool(
        pools in prop::collection::vec(any_pool(), 1..4),
        predicted in prop::collection::vec((number(), number()), 0..6),
        prompts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..3),
        (session, listed, priority, multimodal, now, seed) in
            (".{0,20}", ".{0,20}", any::<i32>(), any::<bool>(), any::<u64>(), any::<u64>()),
    ) {
        let prompts: Vec<_> = prompts.into_iter().map(Prompt::from).collect();
        let headers = RequestHeaders([
            ("x-session-id", session.clone()),
            ("x-session-token", session),
            ("test-epp-endpoint-selection", format!("{listed},10.0.0.1:8000")),
            ("epp-profile", "decode".to_owned()),
            ("x-slo-ttft-ms", "100".to_owned()),
            ("x-slo-tpot-ms", "5".to_owned()),
        ].into());
        let predictions: Vec<_> = predicted
            .into_iter()
            .enumerate()
            .map(|(slot, (ttft_ms, tpot_ms))| (Slot(u32::try_from(slot).unwrap()), Prediction { ttft_ms, tpot_ms }))
            .collect();
        let media = [Media::new(Modality::Image, b"a"), Media::new(Modality::Audio, b"b")];
        let media = if multimodal { &media[..] } else { &[] };
        let request = Request { prompts: &prompts, multimodal, priority, predictions: &predictions, media, headers: &headers, ..REQUEST };
        for (_, scheduler) in schedulers() {
            let mut state = scheduler.state();
            let mut random = StdRng::seed_from_u64(seed);
            let mut held = Vec::new();
            for pool in &pools {
                let _ = scheduler.features(&state, &request, pool, now);
                let Ok(decision) = scheduler.schedule(&state, &request, pool, now, &mut random) else { continue };
                prop_assert!(!decision.destination.is_empty() && !decision.primary_run().targets.is_empty());
                let mut reservation = scheduler.commit(&mut state, &decision);
                state.first_chunk(&mut reservation, Some(now));
                held.push(reservation);
            }
            for reservation in held {
                state.release(reservation);
            }
            let endpoints: Vec<_> = pools.iter().flatten().map(|snapshot| &snapshot.endpoint).collect();
            let _ = scheduler.describe(&state, &endpoints, now);
            for endpoint in endpoints {
                prop_assert_eq!(state.in_flight(endpoint.slot), (0, 0));
            }
        }
    }
}
