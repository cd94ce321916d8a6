//! Compares the reference's series (`metric_names.txt`: name, type and labels) with the pages of pickers that have used every
//! feature once.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use longboat_extproc::{Event, Headers};
use serde_json::json;

use super::{
    metrics::{BODY, CHAT, answer, has, send},
    support::{self, Stream},
};
use crate::{
    core::Core,
    latency::tests::{Behaviour, predictor, server},
    monitoring::metrics_page,
};

const NAMES: &str = include_str!("metric_names.txt");

/// A configuration with fairness between flows and with eviction.
const FLOW: &str = "
featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: prefix-cache-scorer}, {type: concurrency-detector, parameters: {maxConcurrency: 1}},
  {type: program-aware-fairness}, {type: probabilistic-admitter}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: prefix-cache-scorer}]}]
flowControl: {maxRequests: 4, maxBytes: 1000, enableEviction: true, saturationDetector: {pluginRef: concurrency-detector},
  defaultPriorityBand: {maxRequests: 2, fairnessPolicyRef: program-aware-fairness}}
";

const UTILIZATION: &str = "
featureGates: [flowControl]
";

const STAGES: &str = "{type: queue-scorer}]
schedulingProfiles: [{name: prefill, plugins: [{pluginRef: queue-scorer}]}, {name: decode, plugins: [{pluginRef: queue-scorer}]}]
";

const PREDICTED: &str = "
plugins: [{type: predicted-latency-producer, parameters: {streamingMode: true}}, {type: latency-scorer}]
";

const FLOW_BY_NAME: &str = "
plugins: [{type: inflight-load-producer, name: load}, {type: queue-scorer}]
";

const PRECISE: &str = "
plugins:
- {type: precise-prefix-cache-producer}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}
";

fn core_with_stages(plugins: &str) -> Arc<Core> {
    let core = support::core(&format!("plugins: [{plugins}, {STAGES}"));
    support::with_endpoints(&core, 2);
    core
}

/// Sends a request of this flow, up to the point where it is answered or waits.
fn of_flow(core: &Arc<Core>, headers: &[(&str, &str)]) -> Stream {
    let mut stream = Stream::open(core);
    let headers = support::request_headers("POST", CHAT, headers);
    stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
    stream.feed(Event::RequestBody { body: Bytes::from_static(BODY), end_of_stream: true });
    stream
}

/// Returns the series on a page that have a value, as the list writes them: name, type and labels.
fn series(page: &str) -> BTreeSet<String> {
    let kinds = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let described = |(name, kind): (&str, &str)| {
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let sample = if kind == "histogram" { format!("{name}_count") } else { name.clone() };
        let of = |line: &str| {
            let rest = line.strip_prefix(&sample)?;
            if let Some(labels) = rest.strip_prefix('{') {
                let mut names: Vec<_> = labels
                    .split_once('}')?
                    .0
                    .split(',')
                    .filter_map(|label| Some(label.split_once('=')?.0))
                    .collect();
                names.sort_unstable();
                return Some(names.join(","));
            }
            rest.starts_with(' ').then(String::new)
        };
        let labels = page.lines().find_map(of)?;
        let labels = if labels.is_empty() { "-" } else { &labels };
        Some(format!("{name} {kind} {labels}"))
    };
    kinds.filter_map(described).collect()
}

fn flow_control() -> String {
    let mut core = support::core_of(FLOW);
    core.metrics.count_streams();
    let core = Arc::new(core);
    support::with_endpoints(&core, 1);
    core.admission.set_objectives([("batch".to_owned(), -1)].into());
    answer(&mut send(&core));
    let mut batch = of_flow(&core, &[("x-llm-d-inference-objective", "batch")]);
    let mut urgent = send(&core);
    core.admission.turn(&core);
    assert_eq!(batch.poll().len(), 1, "the batch request makes room");
    drop(batch);
    assert_eq!(urgent.wait().len(), 2);
    core.metrics.poll_failed();
    core.metrics.extract_failed();
    core.metrics.rewritten("r", "m", "n");
    metrics_page(&core)
}

/// The page of a picker that follows the KV cache events of an endpoint.
fn blocks() -> String {
    let core = support::core(PRECISE);
    support::with_endpoints(&core, 1);
    let name = core.pool.members()[0].endpoint.full_name();
    let events = &core.metrics.kv_cache.as_ref().unwrap().events;
    let _subscribed = events.subscribed();
    events.received(&name);
    events.reconnected(&name);
    events.failed(&name, "connect");
    let _stream = send(&core);
    metrics_page(&core)
}

async fn predictions() -> String {
    let (url, _) = server(Behaviour::Answers).await;
    let mut core = support::core_of(PREDICTED);
    core.predictor = Some(predictor(&url, &url, &[]));
    let core = Arc::new(core);
    support::with_endpoints(&core, 2);
    let mut stream = Stream::open(&core);
    let wanted = [("x-slo-ttft-ms", "0.001")];
    stream.request("/v1/completions", &wanted, br#"{"model":"m","prompt":"hi","stream":true}"#, None);
    let mut headers = Headers::new();
    headers.push(":status", "200");
    headers.push("content-type", "text/event-stream");
    stream.feed(Event::ResponseHeaders { headers, end_of_stream: false });
    for end_of_stream in [false, false, true] {
        stream.feed(Event::ResponseBody { body: Bytes::from_static(b"data: 1\n\n"), end_of_stream });
    }
    metrics_page(&core)
}

/// A picker that has routed the same image twice.
fn looked_at() -> Arc<Core> {
    let core = support::core("plugins: [{type: mm-embeddings-cache-scorer}]\n");
    support::with_endpoints(&core, 2);
    for _ in 0..2 {
        let body = br#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a"}}]}]}"#;
        Stream::open(&core).request(CHAT, &[], body, None);
    }
    core
}

#[test]
fn images_that_an_endpoint_has_encoded_are_counted() {
    let page = metrics_page(&looked_at());
    let plugin = "plugin_type=\"mm-embeddings-cache-producer\",plugin_name=\"mm-embeddings-cache-producer\"";
    has(&page, &format!("llm_d_epp_encoder_cache_queries_total{{{plugin},modality=\"image\"}} 2"));
    has(&page, &format!("llm_d_epp_encoder_cache_hit_ratio_count{{{plugin}}} 4"));
    has(&page, &format!("llm_d_epp_encoder_cache_hit_ratio_sum{{{plugin}}} 1.0"));
    let hits: Vec<_> =
        page.lines().filter(|line| line.starts_with("llm_d_epp_encoder_cache_hits_total")).collect();
    assert!(
        matches!(hits[..], [hit] if hit.contains("pod=\"") && hit.ends_with("modality=\"image\"} 1")),
        "{hits:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_series_of_the_reference_is_there() {
    let utilization = support::core(UTILIZATION);
    support::with_endpoints(&utilization, 1);
    let disagg = core_with_stages(
        "{type: always-disagg-pd-decider}, {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}",
    );
    let pairs = core_with_stages("{type: pd-profile-handler}");
    let _streams = (send(&disagg), send(&pairs));
    let pages = [
        flow_control(),
        metrics_page(&utilization),
        metrics_page(&disagg),
        metrics_page(&pairs),
        predictions().await,
        metrics_page(&looked_at()),
        blocks(),
    ];
    let found: BTreeSet<String> = pages.iter().flat_map(|page| series(page)).collect();
    let missing: Vec<&str> = NAMES.lines().filter(|name| !found.contains(*name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    let manual = include_str!("../../../../docs/reference/metrics.md");
    let name = |series: &String| series.split(' ').next().unwrap_or_default().to_owned();
    let unlisted = found.iter().map(name).filter(|name| !manual.contains(&format!("`{name}`")));
    assert_eq!(unlisted.collect::<Vec<_>>(), Vec::<String>::new(), "docs/reference/metrics.md lacks series");
}

#[test]
fn series_of_endpoints_that_have_left_are_gone() {
    let core = support::core(
        "plugins:\n- {type: mm-embeddings-cache-scorer}\n\
         - {type: precise-prefix-cache-producer}\n",
    );
    support::with_endpoints(&core, 2);
    let image = br#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a"}}]}]}"#;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = Stream::open(&core);
        stream.request(CHAT, &[], image, None);
        streams.push(stream);
    }
    let events = &core.metrics.kv_cache.as_ref().unwrap().events;
    for member in core.pool.members().iter() {
        let name = member.endpoint.full_name();
        events.received(&name);
        events.reconnected(&name);
        events.failed(&name, "recv");
    }
    let of_pods =
        |page: &str| page.lines().filter(|line| line.contains("pod0") || line.contains("pod1")).count();
    assert!(of_pods(&metrics_page(&core)) > 10);
    core.set_endpoints(vec![support::desired("other", ([127, 0, 0, 9], 18300).into(), &[])]);
    let page = metrics_page(&core);
    assert_eq!(of_pods(&page), 0, "{page}");
    has(&page, "llm_d_epp_per_endpoint_queue_size{name=\"pool\",model_server_endpoint=\"other\"} 0.0");
    drop(streams);
    assert_eq!(of_pods(&metrics_page(&core)), 0, "the end of a response brings nothing back");
}

#[test]
fn what_is_in_flight_is_told_by_flow_and_priority() {
    let core = support::core(FLOW_BY_NAME);
    support::with_endpoints(&core, 1);
    core.admission.set_objectives([("urgent".to_owned(), 5)].into());
    let a = of_flow(&core, &[("x-llm-d-inference-fairness-id", "a")]);
    let mut b =
        of_flow(&core, &[("x-llm-d-inference-fairness-id", "b"), ("x-llm-d-inference-objective", "urgent")]);
    let series = |flow: &str, priority: i32| {
        format!(
            "llm_d_epp_inflight_requests{{endpoint_name=\"pod0\",namespace=\"default\",producer_name=\"load\",\
             fairness_id=\"{flow}\",priority=\"{priority}\"}} 1"
        )
    };
    let page = metrics_page(&core);
    has(&page, &series("a", 0));
    has(&page, &series("b", 5));
    let tokens = |page: &str| {
        let of_b =
            |line: &&str| line.starts_with("llm_d_epp_inflight_tokens") && line.contains("fairness_id=\"b\"");
        page.lines().find(of_b).map(|line| line.rsplit_once(' ').unwrap().1.to_owned())
    };
    assert!(tokens(&page).is_some_and(|tokens| tokens != "0"), "{page}");
    let mut headers = Headers::new();
    headers.push(":status", "200");
    b.feed(Event::ResponseHeaders { headers, end_of_stream: false });
    b.feed(Event::ResponseBody { body: Bytes::from_static(b"{"), end_of_stream: false });
    let page = metrics_page(&core);
    assert_eq!(tokens(&page).as_deref(), Some("0"), "the prompt is computed");
    has(&page, &series("b", 5));
    drop((a, b));
    assert!(!metrics_page(&core).contains("llm_d_epp_inflight_requests{"));
}

#[test]
fn flow_control_says_how_much_of_its_limits_is_used() {
    let core = support::core(FLOW);
    support::with_endpoints(&core, 1);
    let _served = send(&core);
    let waiting = send(&core);
    let page = metrics_page(&core);
    let bytes = f64::from(u16::try_from(BODY.len()).unwrap()) / 1000.0;
    has(&page, "llm_d_epp_flow_control_global_capacity_utilization_requests{inference_pool=\"pool\"} 0.25");
    has(
        &page,
        &format!(
            "llm_d_epp_flow_control_global_capacity_utilization_bytes{{inference_pool=\"pool\"}} {bytes}"
        ),
    );
    let band = "llm_d_epp_flow_control_capacity_utilization_requests{priority=\"0\",inference_pool=\"pool\"}";
    has(&page, &format!("{band} 0.5"));
    drop(waiting);
    has(&metrics_page(&core), &format!("{band} 0.0"));
}

#[test]
fn endpoints_without_metrics_are_stale_where_saturation_is_made_of_metrics() {
    let core = support::core(UTILIZATION);
    let address = |last| std::net::SocketAddr::from(([127, 0, 1, last], 18300));
    core.set_endpoints(vec![
        support::desired("pod0", address(1), &[]),
        support::desired("pod1", address(2), &[]),
    ]);
    has(&metrics_page(&core), "llm_d_epp_flow_control_stale_endpoints{detector=\"utilization-detector\"} 2");
    let other = support::core(FLOW);
    assert!(!metrics_page(&other).contains("stale_endpoints"), "its saturation is made of requests");
}

#[test]
fn the_fullest_detector_of_a_stage_is_the_saturation_of_the_pool() {
    let config = |stages: &str| {
        format!(
            "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\nplugins:\n\
             - {{type: max-saturation-detector, parameters: {{detectors: [utilization-detector, few], stages: {stages}}}}}\n\
             - {{type: concurrency-detector, name: few, parameters: {{maxConcurrency: 2}}}}\n- {{type: queue-scorer}}\n\
             flowControl: {{saturationDetector: {{pluginRef: max-saturation-detector}}}}\n"
        )
    };
    let series = |detector: &str, stage: &str, value: &str| {
        format!(
            "llm_d_epp_flow_control_detector_saturation{{detector=\"{detector}\",stage=\"{stage}\"}} {value}"
        )
    };
    let stage = |stage: &str, value: &str| {
        format!("llm_d_epp_flow_control_pool_saturation{{inference_pool=\"pool\",stage=\"{stage}\"}} {value}")
    };
    let pool = |value: &str| stage("effective", value);
    let with = |stages: &str, role: &str| {
        let core = support::core(&config(stages));
        let address = |last| std::net::SocketAddr::from(([127, 0, 1, last], 18300));
        core.set_endpoints(vec![
            support::desired("pod0", address(1), &[("llm-d.ai/role", role)]),
            support::desired("pod1", address(2), &[]),
        ]);
        // The first endpoint is a fifth full, the second three fifths.
        for (member, waiting) in core.pool.members().iter().zip([1.0, 3.0]) {
            member.scraped(longboat_scheduler::Metrics { waiting, ..Default::default() });
        }
        core
    };
    let whole = with("{}", "both");
    let page = metrics_page(&whole);
    has(&page, &series("utilization-detector", "effective", "0.4"));
    has(&page, &series("few", "effective", "0.0"));
    has(&page, &pool("0.4"));
    let _streams = [of_flow(&whole, &[]), of_flow(&whole, &[])];
    let page = metrics_page(&whole);
    has(&page, &series("few", "effective", "0.5"));
    // Both requests are at the endpoint that serves both stages, and the other one serves only decode.
    has(&page, &stage("prefill", "1.0"));
    has(&page, &stage("decode", "0.5"));
    has(&page, &pool("1.0"));

    let divided = with("{few: [decode], utilization-detector: [prefill]}", "prefill");
    let page = metrics_page(&divided);
    has(&page, &series("utilization-detector", "prefill", "0.2"));
    has(&page, &series("few", "decode", "0.0"));
    assert!(!page.contains("detector=\"few\",stage=\"prefill\""), "{page}");
    has(&page, &pool("0.2"));
    has(&page, &stage("prefill", "0.2"));
    has(&page, &stage("decode", "0.0"));
    let unjudged = with("{few: [prefill], utilization-detector: [prefill]}", "prefill");
    has(&metrics_page(&unjudged), &pool("0.2"));
    unjudged.set_endpoints(Vec::new());
    let page = metrics_page(&unjudged);
    has(&page, &pool("1.0"));
    assert!(!page.contains("stage=\"prefill\""), "{page}");
}

#[test]
fn what_flows_were_served_shows_with_its_fairness() {
    let core = support::core(FLOW);
    support::with_endpoints(&core, 1);
    answer(&mut of_flow(&core, &[("x-llm-d-inference-fairness-id", "a")]));
    let _unanswered = of_flow(&core, &[("x-llm-d-inference-fairness-id", "b")]);
    let page = metrics_page(&core);
    for (series, of) in
        [("attained_service_tokens{program_id=\"b\"}", "0.0"), ("jains_fairness_index{}", "0.5")]
    {
        has(&page, &format!("llm_d_epp_program_aware_{series} {of}"));
    }
    let tokens = page.lines().find_map(|line| {
        line.strip_prefix("llm_d_epp_program_aware_attained_service_tokens{program_id=\"a\"} ")
    });
    let tokens: f64 = tokens.unwrap().parse().unwrap();
    assert!(tokens > 0.0 && tokens <= 17.0, "7 of the prompt, twice 5 of the answer: {tokens}");
}

#[test]
fn the_time_in_plugins_and_in_responses_is_counted() {
    let core = support::core(FLOW);
    support::with_endpoints(&core, 1);
    answer(&mut send(&core));
    let page = metrics_page(&core);
    for (role, plugin) in [
        ("Scorer", "queue-scorer"),
        ("Scorer", "prefix-cache-scorer"),
        ("Picker", "max-score-picker"),
        ("DataProducer", "approx-prefix-cache-producer"),
        ("PreRequest", "approx-prefix-cache-producer"),
        ("Admission", "probabilistic-admitter"),
        ("ProfilePicker", "single-profile-handler"),
        ("RequestParsing", "openai-parser"),
        ("ResponseParsing", "openai-parser"),
    ] {
        let labels = format!("extension_point=\"{role}\",plugin_type=\"{plugin}\",plugin_name=\"{plugin}\"");
        for prefix in ["llm_d_epp", "inference_extension"] {
            has(&page, &format!("{prefix}_plugin_duration_seconds_count{{{labels}}} 1"));
        }
    }
    has(&page, "llm_d_epp_response_processing_duration_seconds_count 1");
}

#[test]
fn streams_are_counted_where_that_is_asked_for() {
    let mut core = support::core_of("");
    core.metrics.count_streams();
    let core = Arc::new(core);
    let (mut answered, given_up, _open) = (Stream::open(&core), Stream::open(&core), Stream::open(&core));
    answered.end(0);
    drop((answered, given_up));
    let page = metrics_page(&core);
    has(&page, "llm_d_epp_extproc_streams_inflight 1");
    has(&page, "llm_d_epp_extproc_stream_duration_seconds_count 2");
    for code in ["OK", "Canceled"] {
        has(&page, &format!("llm_d_epp_extproc_streams_total{{code=\"{code}\"}} 1"));
    }
    let other = support::core("");
    let _stream = Stream::open(&other);
    assert!(!metrics_page(&other).contains("extproc_stream"));
}

#[test]
fn the_blocks_that_engines_hold_are_counted_where_they_are_known() {
    let core = support::core(PRECISE);
    support::with_endpoints(&core, 2);
    let [holdings] = &core.state.read().holdings()[..] else { panic!("one index") };
    let tokens: Vec<u32> = (0..32).collect();
    let stored = longboat_kv_events::Stored {
        hashes: vec![1, 2],
        tokens: tokens.clone(),
        block_size: 16,
        medium: "gpu".to_owned(),
        ..longboat_kv_events::Stored::default()
    };
    holdings.update(|index| {
        let stored = longboat_kv_events::Event::Stored(Box::new(stored));
        index.apply(0, "m", &stored);
        // Two attention groups have stored the blocks, and one has removed the first.
        index.apply(0, "m", &stored);
        let removed = |hashes| longboat_kv_events::Event::Removed { hashes, medium: "gpu".to_owned() };
        index.apply(0, "m", &removed(vec![2]));
        index.apply(0, "m", &removed(vec![1, 2]));
    });
    let body = json!({"model": "m", "prompt": tokens}).to_string();
    Stream::open(&core).request("/v1/completions", &[], body.as_bytes(), None);
    let page = metrics_page(&core);
    for prefix in ["llm_d_epp_kv_cache_index", "kvcache_index"] {
        for (series, count) in [
            ("admissions", 2),
            ("evictions", 1),
            ("lookup_requests", 1),
            ("lookup_hits", 1),
            ("max_pod_hit_count", 1),
        ] {
            has(&page, &format!("{prefix}_{series}_total {count}"));
        }
        has(&page, &format!("{prefix}_lookup_latency_seconds_count 1"));
    }
    for prefix in ["llm_d_epp_kv_cache_events", "kvcache_kvevents"] {
        has(&page, &format!("{prefix}_dedup_removed_hashes_suppressed_total 2"));
        has(&page, &format!("{prefix}_dedup_removed_hashes_forwarded_total 1"));
    }
    assert!(
        !metrics_page(&support::core("")).contains("kv_cache_index"),
        "nothing is told of what is not there"
    );
}
