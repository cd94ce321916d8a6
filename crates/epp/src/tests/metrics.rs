//! The metrics page: all names that dashboards use, and the counters of flow control.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use longboat_extproc::{Event, Headers};
use longboat_scheduler::Metrics;

use super::support::{self, Stream};
use crate::{core::Core, monitoring::metrics_page};

pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

const ONE_AT_A_TIME: &str = "
featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: prefix-cache-scorer}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: prefix-cache-scorer}]}]
flowControl: {defaultRequestTTL: 20ms, maxRequests: 1, saturationDetector: {pluginRef: concurrency-detector}}
";

pub(super) fn has(page: &str, line: &str) {
    assert!(page.lines().any(|found| found == line), "{line}\nin\n{page}");
}

/// Sends a chat, up to the point where it is answered or waits.
pub(super) fn send(core: &Arc<Core>) -> Stream {
    let mut stream = Stream::open(core);
    let headers = support::request_headers("POST", CHAT, &[]);
    stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
    stream.feed(Event::RequestBody { body: Bytes::from_static(BODY), end_of_stream: true });
    stream
}

/// A streamed response with usage.
pub(super) fn answer(stream: &mut Stream) {
    let mut headers = Headers::new();
    headers.push(":status", "200");
    headers.push("content-type", "text/event-stream");
    stream.feed(Event::ResponseHeaders { headers, end_of_stream: false });
    for (body, end_of_stream) in [
        (&b"data: {}\n\n"[..], false),
        (&b"data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n"[..], true),
    ] {
        stream.feed(Event::ResponseBody { body: Bytes::from_static(body), end_of_stream });
    }
}

#[test]
fn every_name_is_there_in_its_present_and_its_former_form() {
    let core = support::core(ONE_AT_A_TIME);
    support::with_endpoints(&core, 2);
    let mut stream = send(&core);
    answer(&mut stream);
    let _in_flight = send(&core);
    core.metrics.poll_failed();
    core.metrics.extract_failed();
    let page = metrics_page(&core);
    for (present, former) in [
        ("request_total", "inference_objective_request_total"),
        ("request_duration_seconds_count", "inference_objective_request_duration_seconds_count"),
        ("request_size_bytes_count", "inference_objective_request_sizes_count"),
        ("response_size_bytes_count", "inference_objective_response_sizes_count"),
        ("request_input_tokens_count", "inference_objective_input_tokens_count"),
        ("request_output_tokens_count", "inference_objective_output_tokens_count"),
        ("request_cached_tokens_count", "inference_objective_prompt_cached_tokens_count"),
        ("request_running", "inference_objective_running_requests"),
        ("request_ntpot_seconds_count", "inference_objective_normalized_time_per_output_token_seconds_count"),
        ("request_ttft_seconds_count", ""),
        ("request_streaming_tpot_seconds_count", ""),
        ("request_streaming_itl_seconds_count", ""),
        ("datalayer_extract_errors_total", "llm_d_inference_scheduler_datalayer_extract_errors_total"),
        ("request_processing_duration_seconds_count", ""),
        ("average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization"),
        ("average_queue_size", "inference_pool_average_queue_size"),
        ("average_running_requests", "inference_pool_average_running_requests"),
        ("std_dev_kv_cache_utilization", ""),
        ("std_dev_queue_size", ""),
        ("std_dev_running_requests", ""),
        ("ready_endpoints", "inference_pool_ready_pods"),
        ("per_endpoint_queue_size", "inference_pool_per_pod_queue_size"),
        ("scheduler_e2e_duration_seconds_count", "inference_extension_scheduler_e2e_duration_seconds_count"),
        ("scheduler_attempts_total", "inference_extension_scheduler_attempts_total"),
        ("info", "inference_extension_info"),
        ("datalayer_poll_errors_total", "llm_d_inference_scheduler_datalayer_poll_errors_total"),
        ("prefix_indexer_size", "inference_extension_prefix_indexer_size"),
        ("prefix_indexer_hit_ratio_count", "inference_extension_prefix_indexer_hit_ratio_count"),
        ("prefix_indexer_hit_bytes_count", "inference_extension_prefix_indexer_hit_bytes_count"),
        ("inflight_requests", ""),
        ("inflight_tokens", ""),
        ("flow_control_queue_size", "inference_extension_flow_control_queue_size"),
        ("flow_control_queue_bytes", "inference_extension_flow_control_queue_bytes"),
        ("flow_control_requests_total", "inference_extension_flow_control_requests_total"),
        ("flow_control_pool_saturation", "inference_extension_flow_control_pool_saturation"),
        (
            "flow_control_request_queue_duration_seconds_count",
            "inference_extension_flow_control_request_queue_duration_seconds_count",
        ),
        (
            "flow_control_request_enqueue_duration_seconds_count",
            "inference_extension_flow_control_request_enqueue_duration_seconds_count",
        ),
        (
            "flow_control_dispatch_cycle_duration_seconds_count",
            "inference_extension_flow_control_dispatch_cycle_duration_seconds_count",
        ),
    ] {
        for name in [format!("llm_d_epp_{present}"), former.to_owned()] {
            let found = page
                .lines()
                .any(|line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' '])));
            assert!(found || name.is_empty(), "{name}\nin\n{page}");
        }
    }
}

#[test]
fn the_pool_has_deviations_and_what_is_in_flight() {
    let core = support::core("");
    support::with_endpoints(&core, 2);
    core.pool.members()[0].scraped(Metrics { waiting: 4.0, ..Metrics::default() });
    let mut stream = send(&core);
    let page = metrics_page(&core);
    has(&page, "llm_d_epp_std_dev_queue_size{name=\"pool\"} 2.0");
    let load = "llm_d_epp_inflight_requests{endpoint_name=\"pod1\",namespace=\"default\",\
                producer_name=\"inflight-load-producer\",fairness_id=\"default-flow\",priority=\"0\"}";
    has(&page, &format!("{load} 1"));
    answer(&mut stream);
    assert!(!metrics_page(&core).contains(load), "a flow has a series while it has requests");
}

#[test]
fn flow_control_counts_who_waits_and_how_each_wait_ends() {
    let core = support::core(ONE_AT_A_TIME);
    support::with_endpoints(&core, 1);
    let labels = "{fairness_id=\"default-flow\",priority=\"0\",inference_pool=\"pool\",model_name=\"m\",target_model_name=\"m\"}";
    let ended = |outcome: &str, count: u32| {
        has(
            &metrics_page(&core),
            &format!(
                "llm_d_epp_flow_control_requests_total{{outcome=\"{outcome}\",priority=\"0\",inference_pool=\"pool\"}} {count}"
            ),
        );
    };
    let mut first = send(&core);
    ended("Dispatched", 1);
    let gone = send(&core);
    for prefix in ["llm_d_epp", "inference_extension"] {
        has(&metrics_page(&core), &format!("{prefix}_flow_control_queue_size{labels} 1"));
        has(&metrics_page(&core), &format!("{prefix}_flow_control_queue_bytes{labels} {}", BODY.len()));
    }
    has(
        &metrics_page(&core),
        "llm_d_epp_flow_control_pool_saturation{inference_pool=\"pool\",stage=\"effective\"} 1.0",
    );
    drop(send(&core));
    ended("RejectedCapacity", 1);
    drop(gone);
    ended("EvictedContextCancelled", 1);
    let mut late = send(&core);
    std::thread::sleep(Duration::from_millis(25));
    assert_eq!(late.wait().len(), 1);
    ended("EvictedTTL", 1);
    let mut next = send(&core);
    answer(&mut first);
    assert_eq!(next.wait().len(), 2);
    ended("Dispatched", 2);
    has(&metrics_page(&core), &format!("llm_d_epp_flow_control_queue_size{labels} 0"));
}

#[test]
fn the_stages_that_requests_go_through_are_counted() {
    for (handler, extra, name, series) in [
        (
            "{type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}",
            "{type: always-disagg-pd-decider}, ",
            "disagg-profile-handler",
            "disagg_decision_total",
        ),
        ("{type: pd-profile-handler, name: it}", "", "it", "pd_decision_total"),
    ] {
        let core = support::core(&format!(
            "
plugins: [{extra}{handler}, {{type: queue-scorer}}]
schedulingProfiles: [{{name: prefill, plugins: [{{pluginRef: queue-scorer}}]}}, {{name: decode, plugins: [{{pluginRef: queue-scorer}}]}}]
"
        ));
        support::with_endpoints(&core, 2);
        let _stream = send(&core);
        let page = metrics_page(&core);
        let labels = format!(
            "plugin_name=\"{name}\",plugin_type=\"{}\"",
            handler[7..].split(['}', ',']).next().unwrap()
        );
        has(
            &page,
            &format!("llm_d_epp_{series}{{{labels},model_name=\"m\",decision_type=\"prefill-decode\"}} 1"),
        );
        has(
            &page,
            &format!(
                "llm_d_inference_scheduler_{series}{{model_name=\"m\",decision_type=\"prefill-decode\"}} 1"
            ),
        );
    }
}
