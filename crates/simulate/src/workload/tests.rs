use super::*;

const SHARED: &str = "
load: {type: constant, interval: 5, stages: [{rate: 2, duration: 10}, {rate: 10, duration: 3}]}
api: {type: completion, streaming: true}
server: {type: vllm, base_url: http://0.0.0.0:8000}
data:
  type: shared_prefix
  shared_prefix: {num_groups: 3, num_prompts_per_group: 2, system_prompt_len: 100, question_len: 50, output_len: 20}
";
const RANDOM: &str = "
load: {type: poisson, stages: [{rate: 20, duration: 100}], lora_traffic_split: [{name: a, split: 0.25}, {name: b, split: 0.75}]}
data:
  type: random
  input_distribution: {min: 10, max: 90, mean: 50, std_dev: 10, total_count: 40}
  output_distribution: {min: 5, max: 5, mean: 5, std_dev: 0}
";

fn all(text: &str) -> Vec<TraceRequest> {
    Workload::parse(text).unwrap().requests(7).map(Result::unwrap).collect()
}

#[test]
fn stages_follow_each_other_and_groups_share_their_prefix() {
    let requests = all(SHARED);
    let seconds: Vec<f64> = requests.iter().map(|request| request.at.as_secs_f64()).collect();
    assert_eq!((requests.len(), seconds[1], seconds[20]), (20 + 30, 0.5, 15.0));
    let TracePrompt::Segments(segments) = &requests[0].prompt else { panic!("segments") };
    assert_eq!((segments[0].1, segments[1].1, requests[0].output_tokens), (100, 50, 20));
    let prompts: std::collections::HashSet<_> =
        requests.iter().map(|request| format!("{:?}", request.prompt)).collect();
    assert_eq!(prompts.len(), 6);
}

#[test]
fn workloads_have_the_defaults_of_inference_perf() {
    let short = "
load: {stages: [{rate: 1, duration: 1}, {rate: 1, duration: 1}]}
data: {type: shared_prefix, shared_prefix: {num_unique_system_prompts: 1, num_users_per_system_prompt: 1}}
";
    let requests = all(short);
    assert_eq!(requests[1].at, Duration::from_secs(2), "a second lies between stages");
    let TracePrompt::Segments(segments) = &requests[0].prompt else { panic!("segments") };
    assert_eq!((segments[0].1, segments[1].1, requests[0].output_tokens), (100, 50, 50));
}

#[test]
fn lengths_have_the_mean_and_the_deviation_of_their_distribution() {
    for (yaml, mean, deviation) in [
        ("{mean: 500, min: 0, max: 100000}", 500.0, 200.0),
        ("{mean: 500, variance: 400, min: 0, max: 100000}", 500.0, 20.0),
        ("{type: lognormal, mean: 500, std_dev: 300, min: 0, max: 100000}", 500.0, 300.0),
        ("{type: uniform, min: 100, max: 700}", 400.0, 600.0 / 12_f64.sqrt()),
        ("{type: fixed, mean: 500}", 500.0, 0.0),
    ] {
        let lengths: Lengths = serde_saphyr::from_str(yaml).unwrap();
        let mut random = StdRng::seed_from_u64(1);
        let drawn: Vec<f64> = (0..20_000).map(|_| crate::numbers::float(lengths.draw(&mut random))).collect();
        let count = crate::numbers::float(20_000);
        let average = drawn.iter().sum::<f64>() / count;
        let spread = (drawn.iter().map(|length| (length - average).powi(2)).sum::<f64>() / count).sqrt();
        assert!((average - mean).abs() < 10.0, "{yaml}: {average}");
        assert!((spread - deviation).abs() < 15.0, "{yaml}: {spread}");
    }
}

#[test]
fn random_prompts_have_lengths_within_their_bounds_and_adapters_their_shares() {
    let requests = all(RANDOM);
    assert!((1700..2300).contains(&requests.len()), "{}", requests.len());
    assert!(requests.is_sorted_by_key(|request| request.at));
    assert!(
        requests
            .iter()
            .all(|request| (10..=90).contains(&request.prompt.tokens()) && request.output_tokens == 5)
    );
    assert_eq!(requests[0].prompt, requests[40].prompt);
    let first = requests.iter().filter(|request| request.adapter.as_deref() == Some("a")).count();
    assert!((requests.len() / 5..requests.len() / 3).contains(&first), "{first} of {}", requests.len());
    assert_eq!(requests, all(RANDOM));
}

#[test]
fn unsupported_settings_are_refused_with_their_field() {
    for (from, to, expected) in [
        ("stages: [{rate: 2, duration: 10}, {rate: 10, duration: 3}]", "stages: []", "load.stages"),
        ("rate: 2,", "rate: -2,", "load.stages[0].rate: -2"),
        ("duration: 10", "duration: 1e30", "load.stages[0].duration"),
        ("type: constant", "type: concurrent", "concurrent"),
        ("  type: shared_prefix", "  type: shareGPT", "shareGPT"),
        ("num_groups: 3", "num_groups: 0", "data.shared_prefix.num_groups: 0"),
        ("question_len: 50", "question_len: 5000000000", "data.shared_prefix.question_len"),
        ("output_len: 20", "output_len: 20, enable_multi_turn_chat: true", "enable_multi_turn_chat"),
        (
            "output_len: 20",
            "output_len: {min: 9, max: 3}",
            "data.shared_prefix.output_len: expected 0 <= min",
        ),
        ("output_len: 20", "output_len: {std: 3}", "a distribution with the fields"),
        ("output_len: 20", "output_length: 20", "output_length"),
        ("output_len: 20", "output_len: {mean: 9}, output_distribution: {mean: 9}", "not both"),
    ] {
        let error = Workload::parse(&SHARED.replace(from, to)).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
    for (from, to, expected) in [
        ("min: 10,", "min: 100,", "data.input_distribution: expected 0 <= min"),
        ("min: 10,", "type: skew_normal, min: 10,", "skew_normal"),
        ("min: 10,", "std: 10, min: 10,", "std"),
        ("min: 10,", "variance: 10, min: 10,", "not both"),
    ] {
        let error = Workload::parse(&RANDOM.replace(from, to)).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
