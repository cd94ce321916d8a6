//! `longboat simulate`: what a person or a script gets.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Ended, run};

fn simulate(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    run(command.arg("simulate").args(arguments).current_dir(folder).env_remove("RUST_LOG"))
}

/// A folder with two services, and a trace of 40 requests for each and 5 for a model that neither serves.
fn two_services() -> TempDir {
    let folder = TempDir::new().unwrap();
    let service = |name: &str, replicas: u32| {
        json!({"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name},
            "spec": {"model": {"uri": format!("hf://org/{name}"), "name": name}, "replicas": replicas,
                "router": {"route": {}, "gateway": {}, "scheduler": {}}}})
        .to_string()
    };
    fs::write(folder.path().join("services.yaml"), [service("a", 2), service("b", 3)].join("\n---\n"))
        .unwrap();
    let mut trace = String::new();
    for number in 0..85 {
        let model = if number % 17 == 16 { "c" } else { ["a", "b"][number % 17 % 2] };
        let line = json!({"at_ms": number * 20, "segments": [[1, 256], [number + 2, 64]], "output_tokens": 16,
            "model": model});
        writeln!(trace, "{line}").unwrap();
    }
    fs::write(folder.path().join("trace.jsonl"), trace).unwrap();
    folder
}

#[test]
fn services_are_pools_their_sum_adds_up_and_what_nobody_serves_is_refused() {
    let folder = two_services();
    let silent = simulate(folder.path(), &["services.yaml"]);
    assert!(silent.stderr.starts_with("error: no traffic given: pass a trace"), "{silent:#?}");
    let arguments = ["services.yaml", "--trace=trace.jsonl", "-o=json"];
    let text = simulate(folder.path(), &arguments).ok();
    let result: Value = serde_json::from_str(&text).unwrap();
    let count = |report: &Value| report["requests"].as_u64().unwrap();
    let pools = result["pools"].as_array().unwrap();
    let of_pools: Vec<_> =
        pools.iter().map(|pool| (pool["name"].as_str().unwrap(), count(&pool["reports"][0]))).collect();
    assert_eq!(of_pools, [("a", 40), ("b", 40)]);
    assert_eq!(result["unknown_models"], json!({"c": 5}));
    assert_eq!(result["sum"].as_array().unwrap().len(), 1);
    assert_eq!(count(&result["sum"][0]), 85, "{}", result["sum"]);
    assert_eq!(simulate(folder.path(), &arguments).ok(), text, "the same bytes again");

    let ended = simulate(folder.path(), &["services.yaml", "--trace=trace.jsonl"]).ok();
    for line in ["a serves a", "b serves b", "all pools", "are refused: 5 for `c`"] {
        assert!(ended.contains(line), "{line}: {ended}");
    }
    let ended = simulate(folder.path(), &["services.yaml", "--trace=trace.jsonl", "--replicas=2,4"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("--replicas is about one service"), "{ended:#?}");
}

#[test]
fn a_name_that_the_one_service_does_not_have_is_refused_until_it_is_mapped() {
    let folder = two_services();
    let services = fs::read_to_string(folder.path().join("services.yaml")).unwrap();
    fs::write(folder.path().join("a.yaml"), services.split("\n---\n").next().unwrap()).unwrap();
    let ended = simulate(folder.path(), &["a.yaml", "--trace=trace.jsonl"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    let said = "request 2: a does not serve `b`, only a: pass --map-model 'b=a' (or '*=a'";
    assert!(ended.stderr.contains(said), "{ended:#?}");
    let ended = simulate(folder.path(), &["a.yaml", "--trace=trace.jsonl", "--map-model=b=a"]);
    assert!(ended.stderr.contains("a does not serve `c`"), "{ended:#?}");

    let answered = |arguments: &[&str]| {
        let text = simulate(folder.path(), &[arguments, &["-o=json"]].concat()).ok();
        serde_json::from_str::<Value>(&text).unwrap()["reports"][0]["answered"].clone()
    };
    assert_eq!(answered(&["a.yaml", "--trace=trace.jsonl", "--map-model=b=a", "--map-model=*=a"]), 85);
    assert_eq!(answered(&["--trace=trace.jsonl"]), 85, "nobody has named a service");
    let written =
        simulate(folder.path(), &["--trace=trace.jsonl", "--map-model=*=a", "--write-trace=mapped.jsonl"]);
    written.ok();
    assert_eq!(answered(&["a.yaml", "--trace=mapped.jsonl"]), 85);
    let nameless =
        fs::read_to_string(folder.path().join("mapped.jsonl")).unwrap().replace(r#","model":"a""#, "");
    fs::write(folder.path().join("nameless.jsonl"), nameless).unwrap();
    assert_eq!(answered(&["a.yaml", "--trace=nameless.jsonl"]), 85);
}

#[test]
fn numbers_of_replicas_are_columns_and_a_sweep_finds_the_smallest_that_meets_the_condition() {
    let folder = TempDir::new().unwrap();
    let traffic =
        ["--generate=documents", "--requests=200", "--rate=4", "--engine-args=--max-num-batched-tokens 2048"];
    let with = |more: &[&str]| simulate(folder.path(), &[&traffic, more].concat());
    let result: Value = serde_json::from_str(&with(&["--replicas=2,8", "-o=json"]).ok()).unwrap();
    let ttft: Vec<f64> = result["reports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report["ttft"]["p99"].as_f64().unwrap())
        .collect();
    assert!(matches!(*ttft, [two, eight] if two > eight), "{ttft:?}");

    // The condition lies between both, so the number that meets it does too.
    let condition = format!("--for=ttft.p99<{}ms", f64::midpoint(ttft[0], ttft[1]));
    let swept = with(&["--sweep=replicas=2..8", &condition, "-o=json"]).ok();
    let sweep = &serde_json::from_str::<Value>(&swept).unwrap()["sweeps"][0];
    let smallest = sweep["smallest"].as_u64().unwrap();
    assert!((3..=8).contains(&smallest), "{sweep}");
    let held = |replicas: u64| {
        let steps = sweep["steps"].as_array().unwrap();
        steps.iter().find(|step| step["replicas"] == replicas).map(|step| step["holds"].clone())
    };
    assert_eq!((held(smallest), held(smallest - 1)), (Some(json!(true)), Some(json!(false))), "{sweep}");
    assert!(sweep["limit"].is_string(), "{sweep}");

    // Filters of the picker know the labels that the pods of the service have.
    let config = json!({"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig",
        "plugins": [{"type": "label-selector-filter",
            "parameters": {"matchLabels": {"app.kubernetes.io/name": "default", "llm-d.ai/role": "both"}}}],
        "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": "label-selector-filter"}]}]});
    fs::write(folder.path().join("labels.yaml"), config.to_string()).unwrap();
    let labelled: Value = serde_json::from_str(&with(&["--config=labels.yaml", "-o=json"]).ok()).unwrap();
    assert_eq!(labelled["reports"][0]["answered"], 200, "{labelled}");

    let ended = with(&["--sweep=replicas=2..3", "--for=ttft.p99<1ms"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("the condition does not hold with up to 3 replicas"), "{ended:#?}");
    let ended = with(&["--sweep=replicas=2..3", "--for=goodput>99%"]);
    assert!(ended.stderr.contains("none is given: add --slo-ttft"), "{ended:#?}");
}
