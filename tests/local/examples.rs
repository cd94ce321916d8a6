//! Every topology of `examples` under `up` answers requests.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use crate::{
    http::{self, Answer},
    local_cluster::LocalCluster,
    processes, tools,
    wait::until,
};

fn start(folder: &str) -> LocalCluster {
    LocalCluster::start(&[tools::root().join("examples").join(folder).to_str().unwrap()])
}

fn chat(url: &str, model: &str, text: &str) -> Answer {
    let messages = json!([{"role": "user", "content": text}]);
    let body = json!({"model": model, "messages": messages, "max_tokens": 8});
    http::post(&format!("{url}/v1/chat/completions"), &body)
}

fn answered(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert!(!body["choices"][0]["message"]["content"].as_str().unwrap().is_empty(), "{answer:?}");
    body
}

/// Returns the environment variables of each engine process of this world.
fn engines(world: &LocalCluster) -> Vec<BTreeMap<String, String>> {
    let mine = processes::with_variable(&world.node_id());
    let serving = |pid: &&u32| processes::command_line(**pid).starts_with("vllm serve");
    mine.iter().filter(serving).map(|pid| processes::variables(*pid)).collect()
}

/// The folders that the tests below, `canary.rs` and `scale_to_zero.rs` serve.
const SERVED: [&str; 13] = [
    "canary",
    "llama-cpp",
    "lora",
    "multi-node",
    "precise-prefix",
    "prefill-decode",
    "scale-to-zero",
    "scaling",
    "sglang",
    "sglang-prefill-decode",
    "single-node",
    "small-model",
    "tensorrt-llm",
];

#[test]
fn every_folder_of_examples_is_served_by_a_test() {
    let entries = fs::read_dir(tools::root().join("examples")).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, SERVED, "an example without a test here");
}

#[test]
fn a_single_node_service_answers() {
    for (folder, model) in [
        ("single-node", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("small-model", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ] {
        let world = start(folder);
        answered(&chat(&world.url, model, "Hello"));
    }
}

/// Returns the metrics page of the pod with this component.
fn metrics(world: &LocalCluster, component: &str, port: u16) -> String {
    let pods = world.object(&["pods", "-l", &format!("app.kubernetes.io/component={component}")]);
    let address = pods["items"][0]["status"]["podIP"].as_str().unwrap_or_else(|| panic!("no pod: {pods}"));
    http::get(&format!("http://{address}:{port}/metrics")).body
}

#[test]
fn sglang_is_simulated_under_its_name_and_the_picker_reads_its_metrics() {
    let world = start("sglang");
    let model = "Qwen/Qwen2.5-0.5B-Instruct";
    answered(&chat(&world.url, model, "Hello"));
    if tools::kubectl().is_none() {
        return;
    }
    let pods = world.object(&["pods", "-l", "app.kubernetes.io/component=llminferenceservice-workload"]);
    let note = &pods["items"][0]["metadata"]["annotations"]["longboat.dev/engine"];
    assert_eq!(note, "simulator: SGLang does not run on this machine");
    let engine = metrics(&world, "llminferenceservice-workload", 8000);
    assert!(engine.contains("sglang:num_running_reqs{") && !engine.contains("vllm:"), "{engine}");
    std::thread::scope(|scope| {
        // Long answers, so that the picker sees running requests.
        for _ in 0..4 {
            scope.spawn(|| {
                let messages = json!([{"role": "user", "content": "Hello"}]);
                let body =
                    json!({"model": model, "messages": messages, "max_tokens": 1000, "ignore_eos": true});
                http::post(&format!("{}/v1/chat/completions", world.url), &body)
            });
        }
        until("the picker sees the requests", || {
            let page = metrics(&world, "llminferenceservice-router-scheduler", 9090);
            let name = "inference_pool_average_running_requests{";
            let line = page.lines().find(|line| line.starts_with(name))?;
            let running: f64 = line.rsplit(' ').next()?.parse().ok()?;
            (running > 0.0).then_some(())
        });
    });
}

#[test]
fn sglang_prefills_elsewhere_and_answers_for_an_adapter_by_its_name() {
    let world = start("sglang-prefill-decode");
    let base = chat(&world.url, "Qwen/Qwen2.5-7B-Instruct", "Why is the sea salty?");
    assert_eq!(answered(&base)["model"], "Qwen/Qwen2.5-7B-Instruct");
    assert!(!base.headers.contains_key("x-simulated-adapter"), "{base:?}");
    for name in ["sql", "publishers/default/models/sql"] {
        let answer = chat(&world.url, name, "List all users.");
        assert_eq!(answered(&answer)["model"], name);
        assert_eq!(answer.headers.get("x-simulated-adapter").map(String::as_str), Some("sql"));
        assert!(answer.headers.contains_key("x-simulated-kv-source"), "no prefill elsewhere: {answer:?}");
        assert!(!answer.pod().contains("prefill"), "the decode pod answers: {answer:?}");
    }
}

#[test]
fn the_servers_of_other_engines_answer_with_their_metrics() {
    for (folder, name, path, running) in [
        ("tensorrt-llm", "TensorRT-LLM", "prometheus/metrics", "trtllm_num_requests_running{"),
        ("llama-cpp", "llama.cpp", "metrics", "llamacpp:requests_processing "),
    ] {
        let world = start(folder);
        answered(&chat(&world.url, "Qwen/Qwen2.5-0.5B-Instruct", "Hello"));
        if tools::kubectl().is_none() {
            continue;
        }
        let pods = world.object(&["pods", "-l", "app.kubernetes.io/component=llminferenceservice-workload"]);
        let pod = &pods["items"][0];
        let note = &pod["metadata"]["annotations"]["longboat.dev/engine"];
        assert_eq!(*note, format!("simulator: {name} does not run on this machine"));
        let address = pod["status"]["podIP"].as_str().unwrap();
        let page = http::get(&format!("http://{address}:8000/{path}")).body;
        assert!(page.contains(running) && !page.contains("vllm:"), "{page}");
    }
}

#[test]
fn a_group_of_two_pods_becomes_ready_and_its_leader_answers() {
    let world = start("multi-node");
    let answer = chat(&world.url, "deepseek-ai/DeepSeek-V2-Lite-Chat", "Hello");
    answered(&answer);
    assert!(answer.pod().ends_with("-mn-0"), "the leader answers: {answer:?}");
    let said = world.running.stderr();
    assert!(said.contains("1/1 groups of 2 ready"), "{said}");

    // Whether or not the worker serves requests itself, it must know its leader and its index.
    // A worker has no readiness probe: it may be ready before its script has started the engine.
    let engines = until("two engines", || Some(engines(&world)).filter(|engines| engines.len() == 2));
    let mut places: Vec<_> = engines.iter().filter_map(|env| env.get("LWS_WORKER_INDEX").cloned()).collect();
    places.sort();
    assert_eq!(places, ["0", "1"], "{engines:#?}");
    let leader = engines.iter().find(|env| env["LWS_WORKER_INDEX"] == "0").unwrap();
    for engine in &engines {
        assert_eq!(engine["LWS_LEADER_ADDRESS"], leader["LONGBOAT_POD_IP"]);
        assert_eq!(engine["LWS_GROUP_SIZE"], "2");
    }
}

#[test]
fn a_prompt_is_computed_by_one_pod_and_answered_by_another() {
    let world = start("prefill-decode");
    let answer = chat(&world.url, "Qwen/Qwen2.5-7B-Instruct", "Why is the sea salty?");
    answered(&answer);
    assert!(!answer.pod().contains("prefill"), "the decode pod answers: {answer:?}");
    let source = answer.headers.get("x-simulated-kv-source").expect("a cache from elsewhere");
    let prefill = engines(&world)
        .into_iter()
        .find(|env| env.get("HOSTNAME").is_some_and(|name| name.contains("prefill")))
        .expect("a prefill engine");
    assert_eq!(source, &prefill["LONGBOAT_POD_IP"]);

    let body = json!({"model": "Qwen/Qwen2.5-7B-Instruct", "stream": true, "max_tokens": 5,
        "messages": [{"role": "user", "content": "And rivers?"}]});
    let stream = http::post(&format!("{}/v1/chat/completions", world.url), &body);
    assert!(stream.status == 200 && stream.body.trim_end().ends_with("data: [DONE]"), "{stream:?}");
}

#[test]
fn a_prompt_goes_where_the_engines_say_that_it_is_cached() {
    let world = start("precise-prefix");
    let (mut first, mut second) = (0, 0);
    for prompt in 0..40 {
        let words: Vec<_> = (0..100).map(|number| format!(" prompt{prompt}word{number}")).collect();
        let text = words.concat();
        let cached = || {
            let answer = answered(&chat(&world.url, "Qwen/Qwen2.5-0.5B-Instruct", &text));
            answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default() >= 96
        };
        first += usize::from(cached());
        second += usize::from(cached());
    }
    // Random choice would find half of them. Not all are expected: the picker skips a pod for a moment when its metrics are
    // late.
    assert_eq!(first, 0);
    assert!(second >= 28, "{second} of 40 prompts went where they were cached");
}

#[test]
fn an_adapter_answers_to_its_own_name() {
    let world = start("lora");
    for model in ["Qwen/Qwen2.5-7B-Instruct", "kubernetes", "sql"] {
        assert_eq!(answered(&chat(&world.url, model, "Hello"))["model"], model);
    }
    assert_eq!(chat(&world.url, "nobody", "Hello").status, 404);
}

#[test]
fn replicas_start_at_the_least_number_and_autoscalers_follow_their_metrics() {
    let world = LocalCluster::start(&[tools::root().join("examples/scaling").to_str().unwrap()]);
    let said = world.running.stderr();
    for (name, model) in [("qwen-scaled", "Qwen/Qwen2.5-0.5B-Instruct"), ("qwen-keda", "qwen-keda")] {
        let url = until("the service's URL", || {
            let line = said.lines().find(|line| line.contains(&format!("{name} serves at")))?;
            line.split_once(" serves at ").map(|(_, url)| url.trim().to_owned())
        });
        answered(&chat(&url, model, "Hello"));
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for engine in engines(&world) {
        let pod = engine["HOSTNAME"].clone();
        let service = if pod.starts_with("qwen-keda") { "keda" } else { "hpa" };
        *counts.entry(service.to_owned()).or_default() += 1;
    }
    assert_eq!(counts, BTreeMap::from([("hpa".to_owned(), 2), ("keda".to_owned(), 2)]));
    if tools::kubectl().is_none() {
        return;
    }
    let condition = |object: &[&str], type_: &str| {
        let path = format!("jsonpath={{.status.conditions[?(@.type==\"{type_}\")].status}}");
        world.ask(&[&["get"][..], object, &["-o", path.as_str()]].concat())
    };
    for service in ["qwen-scaled", "qwen-keda"] {
        until("the service is scaled", || condition(&["llmisvc", service], "ScalingReady") == "True");
    }
    let scaled = ["scaledobject", "qwen-keda-kserve-keda"];
    assert_eq!((condition(&scaled, "Ready"), condition(&scaled, "Active")), ("True".into(), "False".into()));

    // A value for the metric of the Workload Variant Autoscaler, and one for the query of the trigger.
    let replicas = |name: &str| world.ask(&["get", "deploy", name, "-o", "jsonpath={.spec.replicas}"]);
    let hpa = "qwen-scaled-kserve-hpa";
    let metric = "longboat.dev/metric.wva_desired_replicas";
    world.ask(&["annotate", "hpa", hpa, &format!("{metric}=many")]);
    let path = r#"jsonpath={.status.conditions[?(@.type=="ScalingActive")].message}"#;
    let why = format!("annotation {metric} is \"many\", which is no number");
    until("a condition names the annotation", || world.ask(&["get", "hpa", hpa, "-o", path]).contains(&why));
    world.ask(&["annotate", "--overwrite", "hpa", hpa, &format!("{metric}=2")]);
    until("the autoscaler scales up", || replicas("qwen-scaled-kserve") == "4");
    world.ask(&["annotate", scaled[0], scaled[1], "longboat.dev/metric.waiting=12"]);
    let query = r#""sum(waiting) or vector(0)""#;
    let path = "/spec/scaling/keda/triggers/0/metadata/query";
    let trigger = format!(r#"[{{"op": "replace", "path": "{path}", "value": {query}}}]"#);
    world.ask(&["patch", "llmisvc", "qwen-keda", "--type=json", "-p", &trigger]);
    until("KEDA's trigger scales up", || replicas("qwen-keda-kserve") == "3");
    assert_eq!((condition(&scaled, "Ready"), condition(&scaled, "Active")), ("True".into(), "True".into()));
}
