use longboat_scheduler::{
    Metrics,
    config::{DataLayer, EndpointPickerConfig, EngineConfig, MetricSpec},
};
use proptest::prelude::*;

use super::extract;

fn read(engine: &str, page: &str) -> Metrics {
    let layer = DataLayer::from_config(&EndpointPickerConfig::default()).unwrap();
    let mut metrics = Metrics::default();
    extract(page.as_bytes(), &layer.engines[engine], &mut metrics);
    metrics
}

const VLLM: &str = r#"# HELP vllm:num_requests_waiting Number of requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting_by_reason{model_name="m",reason="x"} 99
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="0",model_name="tricky } \" name"} 7 1395066363000
vllm:kv_cache_usage_perc{engine="0"} 2.5e-1
vllm:lora_requests_info{max_lora="4",running_lora_adapters="old",waiting_lora_adapters=""} 1.0
vllm:lora_requests_info{max_lora="4",running_lora_adapters="a, b",waiting_lora_adapters="c"} 2.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000"} 1.0
vllm:e2e_request_latency_seconds_bucket{le="0.3"} 0.0
"#;

#[test]
fn a_vllm_page_is_searched_for_what_is_wanted() {
    let metrics = read("vllm", VLLM);
    assert_eq!((metrics.waiting, metrics.running, metrics.kv_usage), (3.0, 7.0, 0.25));
    assert_eq!((metrics.block_size, metrics.num_blocks), (16, 1000));
    let lora = metrics.lora.unwrap();
    assert_eq!(
        (lora.active, lora.waiting, lora.max),
        (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()], 4)
    );
}

#[test]
fn a_label_with_an_empty_name_is_the_usual_one() {
    let spec = Some(MetricSpec::try_from("info".to_owned()).unwrap());
    let engine = EngineConfig {
        cache_info_spec: spec,
        cache_block_size_label_name: Some(String::new()),
        ..EngineConfig::default()
    };
    let mut metrics = Metrics::default();
    extract(b"info{block_size=\"32\"} 1\n", &engine, &mut metrics);
    assert_eq!(metrics.block_size, 32);
}

#[test]
fn other_engines_have_other_names_and_labels() {
    for cache in [
        "sglang:cache_config_info{page_size=\"64\",num_pages=\"10\"} 1\n",
        "sglang:page_size{tp_rank=\"0\"} 64.0\nsglang:num_pages{tp_rank=\"0\"} 10.0\n",
    ] {
        let page = "sglang:num_queue_reqs 2\nsglang:num_running_reqs{x=\"y\"} 1\nsglang:token_usage 0.5\n";
        let sglang = read("sglang", &format!("{page}{cache}"));
        assert_eq!((sglang.waiting, sglang.running, sglang.kv_usage), (2.0, 1.0, 0.5));
        assert_eq!((sglang.block_size, sglang.num_blocks), (64, 10), "{cache}");
    }
    let triton = read(
        "triton-tensorrt-llm",
        "nv_trt_llm_request_metrics{request_type=\"waiting\"} 4\nnv_trt_llm_request_metrics{request_type=\"scheduled\"} 5\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\"} 32\n",
    );
    assert_eq!((triton.waiting, triton.running, triton.block_size), (4.0, 5.0, 32));
}

#[test]
fn what_a_page_lacks_stays_as_it_was() {
    let layer = DataLayer::from_config(&EndpointPickerConfig::default()).unwrap();
    let vllm = &layer.engines["vllm"];
    let mut metrics = Metrics::default();
    assert!(extract(VLLM.as_bytes(), vllm, &mut metrics));
    assert!(!extract(b"vllm:num_requests_waiting 9", vllm, &mut metrics));
    assert_eq!((metrics.waiting, metrics.running), (9.0, 7.0));
}

proptest! {
    #[test]
    fn no_page_makes_the_search_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let layer = DataLayer::from_config(&EndpointPickerConfig::default()).unwrap();
        extract(&bytes, &layer.engines["vllm"], &mut Metrics::default());
    }

    #[test]
    fn no_damage_to_a_page_makes_the_search_panic(at in 0..VLLM.len(), byte in any::<u8>(), cut in 0..VLLM.len()) {
        let mut page = VLLM.as_bytes().to_vec();
        page[at] = byte;
        page.truncate(cut);
        let layer = DataLayer::from_config(&EndpointPickerConfig::default()).unwrap();
        extract(&page, &layer.engines["vllm"], &mut Metrics::default());
    }
}

#[test]
fn attributes_of_the_configuration_are_read() {
    let engine: EngineConfig = serde_json::from_value(serde_json::json!({
        "name": "mine",
        "customMetrics": [
            {"attributeKey": "gold", "metricSpec": "depth{tier=gold}"},
            {"attributeKey": "heat", "metricSpec": "heat"},
            {"attributeKey": "absent", "metricSpec": "absent"},
        ],
    }))
    .unwrap();
    let mut metrics = Metrics::default();
    extract(
        b"depth{tier=\"iron\"} 9\ndepth{tier=\"gold\"} 4\nheat 0.5\nheat_total 7\n",
        &engine,
        &mut metrics,
    );
    let found: Vec<_> = metrics.custom.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(found, [("gold", 4.0), ("heat", 0.5)]);
}

#[test]
fn a_value_that_is_no_number_or_endless_counts_as_missing() {
    for value in ["NaN", "+Inf", "-Inf", "1e999"] {
        let page = format!(
            "vllm:num_requests_waiting {value}\nvllm:num_requests_running 2\nvllm:kv_cache_usage_perc {value}\n"
        );
        let mut metrics = Metrics { waiting: 3.0, kv_usage: 0.5, ..Metrics::default() };
        let layer = DataLayer::from_config(&EndpointPickerConfig::default()).unwrap();
        let complete = extract(page.as_bytes(), &layer.engines["vllm"], &mut metrics);
        assert!(!complete, "{value}");
        assert_eq!((metrics.waiting, metrics.running, metrics.kv_usage), (3.0, 2.0, 0.5), "{value}");
    }
}

#[test]
fn a_list_of_adapters_without_end_is_cut() {
    let names: Vec<_> = (0..5000).map(|number| format!("a{number}")).collect();
    let page = format!(
        "vllm:lora_requests_info{{max_lora=\"4\",running_lora_adapters=\"{}\"}} 1\n",
        names.join(",")
    );
    assert_eq!(read("vllm", &page).lora.unwrap().active.len(), 1024);
}
