//! What the dashboard shows of a real engine is what the engine says.

use serde_json::{Value, json};

use crate::{
    page::{Feed, Page},
    world::{Engine, MODEL, World},
};

/// The numbers of a replica on the page, and the metrics that they are.
const NUMBERS: [(&str, &str); 11] = [
    ("waiting", "vllm:num_requests_waiting"),
    ("running", "vllm:num_requests_running"),
    ("kvUsage", "vllm:kv_cache_usage_perc"),
    ("queries", "vllm:prefix_cache_queries_total"),
    ("hits", "vllm:prefix_cache_hits_total"),
    ("promptTokens", "vllm:prompt_tokens_total"),
    ("tokens", "vllm:generation_tokens_total"),
    ("requests", "vllm:request_success_total"),
    ("firstTokenSeconds", "vllm:time_to_first_token_seconds_sum"),
    ("firstTokens", "vllm:time_to_first_token_seconds_count"),
    ("errors", ""),
];

pub(crate) fn shows(world: &World, engine: &Engine) {
    engine.rests();
    let page = Page::of(&world.cluster);
    let mut feed = Feed::open(&page, &format!("default/{}", world.service));
    let services = feed.until("services", |data| !data["set"].as_array().unwrap().is_empty());
    let service = &services["set"][0];
    let shown = [&service["models"], &service["ready"], &service["replicas"], &service["mark"]];
    assert_eq!(shown, [&json!([MODEL, "ada"]), &json!(1), &json!(1), &json!("good")], "{service:#}");

    let expected: Vec<f64> = NUMBERS
        .iter()
        .map(|(_, metric)| if metric.is_empty() { 0.0 } else { engine.metric(metric, "") })
        .collect();
    // Nobody asks the engine for anything, so the next samples are like the last one.
    let is_measured = |replica: &&Value| {
        replica["role"] != "picker" && replica["sample"]["firstTokens"].as_f64() == Some(expected[9])
    };
    let replicas = feed.until("replicas", |data| {
        data["replicas"].as_array().unwrap().iter().any(|replica| is_measured(&replica))
    });
    let replica = replicas["replicas"].as_array().unwrap().iter().find(is_measured).unwrap();
    let sample: Vec<f64> =
        NUMBERS.iter().map(|(number, _)| replica["sample"][*number].as_f64().unwrap()).collect();
    // Sums of seconds may differ in their last digit, because series are added in another order. Counts are far below 1e9.
    let is_equal = sample.iter().zip(&expected).all(|(shown, said)| (shown - said).abs() <= said * 1e-9);
    assert!(is_equal, "{expected:?}, and the page: {replica:#}");
    assert!(sample[5] > 0.0 && sample[6] > 0.0 && sample[4] > 0.0, "{replica:#}");
}
