use longboat_api::foreign::scaledobject::ScaledObjectSpec;
use longboat_engine_model::{Parameters, Timing};

use super::*;
use crate::{
    generate::{self, Kind, Traffic},
    trace::{Segment, TracePrompt},
};

const PREFIX: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: prefix-cache-scorer}, {type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: max-score-picker}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: queue-scorer}, \
    {pluginRef: kv-cache-utilization-scorer}, {pluginRef: max-score-picker}]}]}";
const ACTIVE: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: active-request-scorer}, {type: max-score-picker}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}, {pluginRef: max-score-picker}]}]}";
const RANDOM: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: random-picker}], schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]}";
const DISAGGREGATED: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: prefill-filter}, {type: decode-filter}, {type: queue-scorer}, {type: max-score-picker}, \
    {type: always-disagg-pd-decider}, {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}], \
    schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer}, {pluginRef: max-score-picker}]}, \
    {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}, {pluginRef: max-score-picker}]}]}";
const FLOW: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, featureGates: [flowControl], \
    plugins: [{type: random-picker}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}], \
    flowControl: {saturationDetector: {pluginRef: concurrency-detector}, maxRequests: 2, defaultPriorityBand: {maxRequests: 2}}}";

fn policy(config: &str) -> Policy {
    Policy {
        name: "policy".to_owned(),
        config: config.to_owned(),
        gates: Vec::new(),
        allow_experimental: true,
    }
}

fn group(role: &str, replicas: usize) -> PoolSettings {
    let timing = Timing { transfer: Duration::from_millis(10), ..Timing::realistic() };
    let engine = Parameters {
        max_num_seqs: 64,
        max_waiting: 100,
        block_size: 16,
        cache_blocks: 2048,
        max_model_len: usize::MAX,
        timing,
    };
    let labels = [("llm-d.ai/role".to_owned(), role.to_owned())].into();
    PoolSettings { labels, replicas, engine, accelerators: 2.0 }
}

fn settings(pool: Vec<PoolSettings>) -> Settings {
    Settings {
        pool,
        changes: Vec::new(),
        seed: 1,
        scrape: Duration::from_millis(50),
        event_delay: Duration::from_millis(5),
        slo: Slo { ttft: Some(Duration::from_millis(100)), ..Slo::default() },
        explain_every: 4,
        start_time: Duration::ZERO,
        autoscaler: None,
        pickers: PickerSettings::default(),
    }
}

fn traffic(kind: Kind, rate: f64) -> Traffic {
    Traffic { kind, rate, requests: 2000, prompt_tokens: None, output_tokens: Some(32), seed: 3 }
}

fn simulate(config: &str, settings: &Settings, traffic: Traffic) -> Report {
    run(&policy(config), settings, generate::requests(traffic), &mut |_| {}).unwrap()
}

/// Requests with prompts of 100 tokens and answers of 11, at these milliseconds.
fn at(times: &[u64]) -> Requests<'static> {
    let requests: Vec<_> = times
        .iter()
        .map(|at| Ok(TraceRequest::new(Duration::from_millis(*at), TracePrompt::unshared(100), 11)))
        .collect();
    Box::new(requests.into_iter())
}

fn millis(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected * crate::RELATIVE_ERROR + 0.01
}

#[test]
fn a_request_alone_takes_the_times_of_its_engine() {
    let settings = settings(vec![group("both", 1)]);
    let report = run(&policy(RANDOM), &settings, at(&[1000]), &mut |_| {}).unwrap();
    assert!(millis(report.ttft.p50, 21.0) && millis(report.itl.p50, 6.0) && millis(report.e2e.p50, 81.0));
    assert_eq!((report.answered, report.goodput.to_bits()), (1, 1f64.to_bits()));
    assert!((report.gpu_seconds - 2.0 * 1.081).abs() < 1e-3, "{}", report.gpu_seconds);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let settings = settings(vec![group("both", 4)]);
    let report = || simulate(PREFIX, &settings, traffic(Kind::Sessions, 20.0));
    let (first, second) = (report(), report());
    assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&second).unwrap());
    assert_eq!(first, second, "the sample of requests is not in the text");
}

#[test]
fn a_prefix_aware_picker_has_more_cache_hits() {
    let settings = settings(vec![group("both", 12)]);
    let random = simulate(RANDOM, &settings, traffic(Kind::Sessions, 20.0));
    let prefix = simulate(PREFIX, &settings, traffic(Kind::Sessions, 20.0));
    assert!(prefix.hit_ratio > random.hit_ratio + 0.05, "{} {}", prefix.hit_ratio, random.hit_ratio);
    let decisive = prefix.plugins.iter().max_by(|a, b| a.share.total_cmp(&b.share)).unwrap();
    assert_eq!(decisive.plugin, "prefix-cache-scorer");
    let with_policy = |name: &str, report| Report { policy: name.to_owned(), ..report };
    let reports = [with_policy("random", random), with_policy("prefix", prefix)];
    assert_eq!(
        crate::advice(&reports, &crate::differences(&reports)),
        [
            "prefix: `prefix-cache-scorer` decides most: without it, 100 % of the picks would be others",
            "prefix instead of random: TTFT p50 30.8 → 25.0 ms, hit ratio +8.5 points",
            "of 767 sampled later turns of conversations, 598 go to the endpoint that holds their prefix: TTFT 47.3 → 37.7 ms \
             on average, mostly because of the computation of the prompt, 545 → 706 of 1084 prompt tokens cached; \
             what decides is chance (598 of 598) in random, and `prefix-cache-scorer` (598 of 598) in prefix",
            "409 sampled requests go to the same place: TTFT 22.1 → 24.1 ms on average, mostly because of the computation of the \
             prompt, 581 → 546 of 698 prompt tokens cached",
            "example: request 1022, turn 3 of session-207, 684 prompt tokens: random picks endpoint-6 (512 of its tokens \
             cached): there is no scorer, so chance decides between it and endpoint-5 (608 of its tokens cached); TTFT 25.3 ms",
            "the same request: prefix picks endpoint-0 (608 of its tokens cached): prefix-cache-scorer 0.82×3 + queue-scorer \
             1.00×1 + kv-cache-utilization-scorer 0.92×1 = 4.37, against 2.00 for endpoint-6, because of \
             `prefix-cache-scorer`; TTFT 19.6 ms",
        ]
    );
}

#[test]
fn a_comparison_names_the_limit_of_a_picker_that_queues_and_refuses() {
    let settings = settings(vec![group("both", 1)]);
    let of = |name: &str, config: &str| {
        let policy = Policy { name: name.to_owned(), ..policy(config) };
        run(&policy, &settings, at(&[1000, 1000, 1000, 1000]), &mut |_| {}).unwrap()
    };
    let reports = [of("random", RANDOM), of("flow", FLOW)];
    assert_eq!(
        crate::advice(&reports, &crate::differences(&reports)),
        [
            "flow instead of random: TTFT p50 21.1 → 103 ms, hit ratio +0.0 points",
            "of 4 sampled requests without a cached prefix, 1 is refused; what decides is a refusal, because the picker's \
             queue is full, (1 of 1) in flow",
            "3 sampled requests go to the same place: TTFT 21.0 → 103 ms on average, mostly because of the picker's queue",
            "example: request 3, 100 prompt tokens: random picks endpoint-0 (0 of its tokens cached): another endpoint is \
             not there; TTFT 21.0 ms",
            "the same request: flow refuses it, because the picker's queue is full",
        ]
    );
}

#[test]
fn prompts_go_to_prefill_endpoints_and_cost_a_transfer() {
    let settings = settings(vec![group("prefill", 1), group("decode", 1)]);
    let report = run(&policy(DISAGGREGATED), &settings, at(&[1000]), &mut |_| {}).unwrap();
    // 21 ms for the prompt, 10 ms for the transfer, 6 ms for a token.
    assert!(millis(report.ttft.p50, 37.0), "{:?}", report.ttft);
    assert_eq!(report.answered, 1);
}

#[test]
fn flow_control_holds_requests_back_and_refuses_those_beyond_its_limit() {
    let settings = settings(vec![group("both", 1)]);
    let report = run(&policy(FLOW), &settings, at(&[1000, 1000, 1000, 1000]), &mut |_| {}).unwrap();
    assert_eq!((report.answered, report.rejections.picker), (3, 1));
    // Each waits for the one before, which takes 81 ms.
    assert!((180.0..190.0).contains(&report.ttft.p99), "{:?}", report.ttft);
    assert!(report.waits.picker_queue > 0.7, "{:?}", report.waits);
}

#[test]
fn requests_at_an_endpoint_that_fails_are_lost_and_later_ones_go_elsewhere() {
    let mut settings = settings(vec![group("both", 2)]);
    settings.changes = vec![(Duration::from_millis(1010), PoolChange::Fail(0))];
    let times: Vec<u64> = (0..20).map(|_| 1000).chain((0..20).map(|_| 2000)).collect();
    let report = run(&policy(RANDOM), &settings, at(&times), &mut |_| {}).unwrap();
    assert!(report.rejections.lost > 0 && report.rejections.lost < 20, "{:?}", report.rejections);
    assert_eq!(report.answered + report.rejections.lost, 40);
    settings.changes.push((Duration::from_millis(1500), PoolChange::Fail(1)));
    let report = run(&policy(RANDOM), &settings, at(&times), &mut |_| {}).unwrap();
    assert_eq!(report.rejections.no_endpoint, 20);
}

#[test]
fn replicas_that_come_help_and_those_that_go_finish_their_requests() {
    let mut settings = settings(vec![group("both", 1)]);
    settings.changes = vec![
        (Duration::from_millis(1500), PoolChange::Replicas(3)),
        (Duration::from_millis(2010), PoolChange::Replicas(1)),
    ];
    let report = run(&policy(RANDOM), &settings, at(&[1000, 2000, 2000, 2000, 2000]), &mut |_| {}).unwrap();
    assert_eq!((report.answered, report.endpoints), (5, 3));
    assert!(report.gpu_seconds < 2.0 * (2.2 + 2.0 * 0.7), "{}", report.gpu_seconds);
}

#[test]
fn the_caches_of_endpoints_that_went_take_no_memory() {
    let changes = [(1500, PoolChange::Replicas(1)), (2000, PoolChange::Fail(0))];
    let changes = changes.map(|(at, change)| (Duration::from_millis(at), change)).to_vec();
    let settings = Settings { changes, ..settings(vec![group("both", 2)]) };
    let mut world = World::new(&policy(RANDOM), &settings).unwrap();
    let prompt = TracePrompt::Segments(vec![Segment(1, 64)]);
    let hashes = longboat_engine_model::block_hashes(&prompt.bytes(0, 0, Vec::new()), 16);
    for number in 0..20 {
        let request = TraceRequest::new(Duration::ZERO, prompt.clone(), 1);
        world.arrive(number, request, 1_000_000_000);
    }
    let mut cached = Vec::new();
    while !world.events.is_empty() {
        let blocks = world.members.iter().map(|member| member.engine.cached_blocks(&hashes));
        cached.push(blocks.collect::<Vec<_>>());
        world.step().unwrap();
    }
    assert!(cached.contains(&vec![4, 4]), "{cached:?}");
    assert!(world.members.iter().all(|member| member.engine.cached_blocks(&hashes) == 0));
}

#[test]
fn full_queues_and_long_prompts_are_counted_separately() {
    let mut small = group("both", 1);
    (small.engine.max_num_seqs, small.engine.max_waiting) = (1, 1);
    let long = TraceRequest::new(Duration::from_secs(5), TracePrompt::Segments(vec![Segment(1, 40_000)]), 1);
    let requests = at(&[1000, 1000, 1000]).chain([Ok(long)]);
    let report = run(&policy(RANDOM), &settings(vec![small]), Box::new(requests), &mut |_| {}).unwrap();
    assert_eq!((report.rejections.engine_queue, report.rejections.too_long), (1, 1));
    assert!(report.waits.batch > 0.4, "{:?}", report.waits);
}

#[test]
fn a_wrong_configuration_or_trace_is_reported() {
    let settings = settings(vec![group("both", 1)]);
    let wrong = run(
        &policy("kind: EndpointPickerConfig\nplugins: [{type: nothing}]"),
        &settings,
        at(&[]),
        &mut |_| {},
    );
    assert!(matches!(wrong, Err(RunError::Config { .. })));
    let trace = crate::trace::read(b"{\"at_ms\":0,\"prompt_tokens\":1,\"output_tokens\":1}\n[".as_slice());
    let broken = run(&policy(RANDOM), &settings, trace, &mut |_| {});
    assert!(broken.unwrap_err().to_string().starts_with("line 2"));
    let none = run(&policy(RANDOM), &settings, at(&[]), &mut |_| {});
    assert!(matches!(none, Err(RunError::NoRequests)));
    let empty = Settings { pool: vec![group("both", 0)], ..settings };
    assert!(matches!(run(&policy(RANDOM), &empty, at(&[]), &mut |_| {}), Err(RunError::Endpoints(0))));
}

#[test]
fn an_endpoint_that_does_not_exist_cannot_fail() {
    let second = Duration::from_secs(1);
    let of = |changes: Vec<(Duration, PoolChange)>| {
        let settings = Settings { changes, ..settings(vec![group("both", 2)]) };
        run(&policy(RANDOM), &settings, at(&[1000]), &mut |_| {}).map(|report| report.answered)
    };
    let wrong = of(vec![(second, PoolChange::Fail(2))]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "there is no endpoint 2 that could fail at 1 s: at this time, endpoints have the numbers 0 to 1"
    );
    // One of the two has failed, so two more come.
    let three = [
        (second, PoolChange::Fail(0)),
        (2 * second, PoolChange::Replicas(3)),
        (3 * second, PoolChange::Fail(3)),
    ];
    assert_eq!(of(three.to_vec()).unwrap(), 1);
    let four = [&three[..2], &[(3 * second, PoolChange::Fail(4))]].concat();
    assert!(of(four).is_err());
}

#[test]
fn an_endpoint_gets_requests_when_it_has_started() {
    let mut settings = settings(vec![group("both", 1)]);
    settings.start_time = Duration::from_secs(2);
    settings.changes = vec![
        (Duration::from_secs(1), PoolChange::Replicas(2)),
        (Duration::from_secs(5), PoolChange::Fail(0)),
    ];
    let before: Vec<u64> = (0..20).map(|number| 1100 + number * 90).collect();
    let report = run(&policy(RANDOM), &settings, at(&before), &mut |_| {}).unwrap();
    assert!(report.skew > 0.99, "all at one of two: {}", report.skew);
    let after: Vec<u64> = (0..40).map(|number| 3100 + number * 40).collect();
    let report = run(&policy(RANDOM), &settings, at(&after), &mut |_| {}).unwrap();
    assert!(report.skew < 0.5, "{}", report.skew);
}

#[test]
fn an_autoscaler_adds_endpoints_while_requests_run_and_removes_them_after_its_window() {
    let scaled = |start| Settings {
        autoscaler: Some(AutoscalerSettings::of_metric("vllm:num_requests_running", 2.0, (1, 6), false)),
        start_time: Duration::from_secs(start),
        ..settings(vec![group("both", 1)])
    };
    // About eight requests run at a time for two minutes; then one comes every two seconds.
    let busy = (0..12_000).map(|number| number * 10);
    let quiet = (0..300).map(|number| 120_000 + number * 2000);
    let times: Vec<u64> = busy.chain(quiet).collect();
    let of = |settings: &Settings| run(&policy(RANDOM), settings, at(&times), &mut |_| {}).unwrap();
    let report = of(&scaled(0));
    assert!((3..=6).contains(&report.endpoints), "{}", report.endpoints);
    let ready = &report.series.endpoints;
    assert!(
        ready.iter().any(|ready| *ready > 2.5) && ready.last().is_some_and(|ready| *ready < 1.1),
        "{ready:?}"
    );
    let late = of(&scaled(100));
    assert!(late.series.endpoints[5] < 1.1 && late.endpoints > 1, "{:?}", late.series.endpoints);
}

#[test]
fn keda_scales_to_zero_and_a_queued_request_wakes_an_endpoint() {
    let settings = Settings {
        autoscaler: Some(AutoscalerSettings::of_metric(
            "llm_d_epp_flow_control_queue_size",
            2.0,
            (0, 2),
            true,
        )),
        start_time: Duration::from_secs(20),
        ..settings(vec![group("both", 1)])
    };
    let report = run(&policy(FLOW), &settings, at(&[1000, 3_600_000]), &mut |_| {}).unwrap();
    // KEDA looks every 30 s, and finds nothing to do at the start, so both wait for a look and for the start of an endpoint.
    assert_eq!((report.answered, report.requests), (2, 2));
    assert!((48_000.0..51_000.0).contains(&report.ttft.p99), "{:?}", report.ttft);
    assert!(report.gpu_seconds < 2.0 * 1000.0, "{}", report.gpu_seconds);
    // An endpoint that starts within no time answers what waits, too.
    let at_once = Settings { start_time: Duration::ZERO, ..settings.clone() };
    let report = run(&policy(FLOW), &at_once, at(&[1000, 3_600_000]), &mut |_| {}).unwrap();
    assert_eq!((report.answered, report.requests), (2, 2));
    assert!((28_000.0..31_000.0).contains(&report.ttft.p99), "{:?}", report.ttft);
    // Longboat's gateway holds requests that no picker queues, up to a limit.
    let without_queue = run(&policy(RANDOM), &settings, at(&[1000]), &mut |_| {}).unwrap();
    assert_eq!((without_queue.answered, without_queue.rejections.no_endpoint), (1, 0));
    let crowd = run(&policy(RANDOM), &settings, at(&[1000; 300]), &mut |_| {}).unwrap();
    assert_eq!(crowd.rejections.no_endpoint, 44);
    // Those that have waited for ten minutes leave room for others.
    let slow = Settings { start_time: Duration::from_mins(12), ..settings };
    let times: Vec<u64> = [1000; 256].into_iter().chain([660_000]).collect();
    let report = run(&policy(RANDOM), &slow, at(&times), &mut |_| {}).unwrap();
    assert_eq!((report.answered, report.rejections.no_endpoint), (1, 256));
}

/// A ScaledObject with one trigger, as a manifest has it.
fn keda(bounds: &serde_json::Value, query: &str) -> AutoscalerSettings {
    let mut spec = serde_json::json!({
        "scaleTargetRef": {"name": "d"}, "pollingInterval": 2,
        "triggers": [{"type": "prometheus", "metadata": {"query": query, "threshold": "1"}}],
    });
    spec.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
    AutoscalerSettings::from(serde_json::from_value::<ScaledObjectSpec>(spec).unwrap())
}

#[test]
fn requests_wait_for_a_service_that_has_no_replica_while_it_is_idle() {
    for queue in [
        "llm_d_epp_flow_control_queue_size",
        "inference_extension_flow_control_queue_size",
        "llm_d_epp_flow_control_queue_bytes",
    ] {
        for bounds in [
            serde_json::json!({"idleReplicaCount": 0, "minReplicaCount": 1, "maxReplicaCount": 2}),
            serde_json::json!({"minReplicaCount": 0, "maxReplicaCount": 2}),
        ] {
            let query = format!("sum({queue}{{inference_pool=\"p\"}}) or vector(0)");
            let autoscaler = Some(keda(&bounds, &query));
            let settings = Settings { autoscaler, ..settings(vec![group("both", 1)]) };
            let report = run(&policy(RANDOM), &settings, at(&[1000, 9000, 3_600_000]), &mut |_| {}).unwrap();
            assert_eq!(report.answered, 3, "{queue} {bounds}");
            assert!(report.gpu_seconds < 2.0 * 1000.0, "it goes back to zero: {}", report.gpu_seconds);
        }
    }
}

#[test]
fn a_query_without_a_single_number_is_named() {
    let bounds = serde_json::json!({"minReplicaCount": 2, "maxReplicaCount": 2});
    let autoscaler = Some(keda(&bounds, "vllm:num_requests_running"));
    let settings = Settings { autoscaler, ..settings(vec![group("both", 2)]) };
    let error = run(&policy(RANDOM), &settings, at(&[1]), &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("the autoscaler cannot be simulated: trigger 0: "), "{error}");
}

#[test]
fn an_autoscaler_of_an_unknown_metric_is_refused() {
    let autoscaler = Some(AutoscalerSettings::of_metric("cpu", 2.0, (1, 6), false));
    let settings = Settings { autoscaler, ..settings(vec![group("both", 1)]) };
    let error = run(&policy(RANDOM), &settings, at(&[1]), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("nothing has the metric cpu here, only vllm:num_requests_waiting"), "{error}");
}

#[test]
fn an_autoscaler_that_no_request_can_wake_is_refused() {
    let autoscaler = Some(AutoscalerSettings::of_metric("vllm:num_requests_running", 2.0, (0, 6), true));
    let settings = Settings { autoscaler, ..settings(vec![group("both", 1)]) };
    let error = run(&policy(RANDOM), &settings, at(&[1]), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("no endpoint would ever start"), "{error}");
}

#[test]
fn scores_decide_nothing_for_a_picker_that_ignores_them() {
    let scored =
        RANDOM.replace("[{type: random-picker}]", "[{type: prefix-cache-scorer}, {type: random-picker}]");
    let scored = scored.replace(
        "[{pluginRef: random-picker}]",
        "[{pluginRef: prefix-cache-scorer}, {pluginRef: random-picker}]",
    );
    assert_ne!(scored, RANDOM);
    let report = simulate(&scored, &settings(vec![group("both", 4)]), traffic(Kind::Sessions, 20.0));
    let share = report.plugins.iter().find(|plugin| plugin.plugin == "prefix-cache-scorer").unwrap().share;
    assert!(share.abs() < 1e-9, "{share}");
}

#[test]
fn a_run_ends_with_the_last_arrival_if_no_answer_comes_later() {
    let changes = vec![(Duration::from_secs(1), PoolChange::Fail(0))];
    let settings = Settings { changes, ..settings(vec![group("both", 1)]) };
    let report = run(&policy(RANDOM), &settings, at(&[10, 5000]), &mut |_| {}).unwrap();
    assert_eq!((report.answered, report.rejections.no_endpoint), (1, 1));
    assert!((4.9..5.1).contains(&report.seconds), "{}", report.seconds);
}

#[test]
fn pickers_that_know_nothing_of_each_other_find_fewer_prefixes() {
    let with = |number, sharing| {
        let pickers = PickerSettings { number, sharing };
        let settings = Settings { pickers, ..settings(vec![group("both", 12)]) };
        simulate(PREFIX, &settings, traffic(Kind::Sessions, 20.0)).hit_ratio
    };
    let alone = with(1, Sharing::Nothing);
    let [together, soon, never] =
        [Sharing::After(Duration::ZERO), Sharing::After(Duration::from_millis(10)), Sharing::Nothing]
            .map(|sharing| with(6, sharing));
    assert!(
        (together - alone).abs() < 0.03 && (soon - alone).abs() < 0.05,
        "{alone} {together} {soon} {never}"
    );
    assert!(never < alone - 0.03, "{alone} {never}");
    let none = PickerSettings { number: 0, sharing: Sharing::Nothing };
    let none = Settings { pickers: none, ..settings(vec![group("both", 1)]) };
    assert!(matches!(run(&policy(PREFIX), &none, at(&[1]), &mut |_| {}), Err(RunError::Pickers(0))));
}

#[test]
fn shared_picker_state_ends_with_the_endpoint_and_the_request() {
    let pickers = PickerSettings { number: 3, sharing: Sharing::After(Duration::from_millis(30)) };
    let settings = Settings {
        pickers,
        changes: vec![
            (Duration::from_millis(1010), PoolChange::Fail(0)),
            (Duration::from_millis(1100), PoolChange::Replicas(3)),
        ],
        ..settings(vec![group("both", 2)])
    };
    // Prefill ends after the 30 ms for some and before them for others; a later request must find no load that is left.
    let times: Vec<u64> = (0..60).map(|number| 1000 + number * 3).chain([60_000]).collect();
    let run_once = || run(&policy(ACTIVE), &settings, at(&times), &mut |_| {}).unwrap();
    let report = run_once();
    assert_eq!(report.answered + report.rejections.lost, 61);
    assert_eq!(serde_json::to_string(&report).unwrap(), serde_json::to_string(&run_once()).unwrap());
}
