//! The alerts and dashboards of `deploy`, evaluated by a real Prometheus that scrapes engines, a picker and an Envoy.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::{
    envoy::{Envoy, Port},
    http,
    prometheus::{Prometheus, queries},
    tools,
    wait::until,
    world::{BLEND, Picker, Pool, Role, turn},
};

/// Dashboards whose every query must return data in this test. A test of the controller asks for the series of the others.
const DASHBOARDS: [&str; 4] = ["longboat-services", "longboat-picker", "longboat-engine", "longboat-gateway"];

/// Starts a Prometheus with the rules of `deploy/monitoring`, whose alerts fire without a delay.
fn monitor(program: &Path, engines: &[SocketAddr], picker: &str, gateway: SocketAddr) -> Prometheus<Role> {
    let rules = fs::read_to_string(tools::root().join("deploy/monitoring/rules.yaml")).unwrap();
    let rules: Vec<&str> = rules.lines().filter(|line| !line.trim_start().starts_with("for: ")).collect();
    // The labels that the monitors of `deploy/kustomize/components/monitoring` set.
    let target = |address: &str, pod: &str| json!({"targets": [address], "labels": {"namespace": "default", "service_name": "llm", "pod": pod}});
    let engines: Vec<Value> =
        engines.iter().map(|engine| target(&engine.to_string(), &engine.to_string())).collect();
    let picker = picker.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let jobs = json!([
        {"job_name": "longboat-engines", "static_configs": engines},
        {"job_name": "longboat-pickers", "static_configs": [target(picker, "picker")]},
        {"job_name": "gateway", "metrics_path": "/stats/prometheus",
            "static_configs": [target(&gateway.to_string(), "gateway")]},
    ]);
    Prometheus::start(program, &jobs, &rules.join("\n"), Role::start)
}

/// The names of the alerts that fire.
fn firing(prometheus: &Prometheus<Role>) -> BTreeSet<String> {
    let alerts = prometheus.get("/api/v1/alerts");
    let alerts = alerts["alerts"].as_array().unwrap().iter();
    let firing = alerts.filter(|alert| alert["state"] == "firing");
    firing.map(|alert| alert["labels"]["alertname"].as_str().unwrap().to_owned()).collect()
}

/// Returns the metrics of pickers, engines and gateways that the alerts use.
fn metrics_of_alerts() -> BTreeSet<String> {
    let rules = fs::read_to_string(tools::root().join("deploy/monitoring/rules.yaml")).unwrap();
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let is_ours = |word: &&str| {
        ["llm_d_epp_", "vllm:", "envoy_http_downstream", "envoy_http_ext"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
    };
    words.filter(is_ours).map(|word| word.trim_end_matches(':').to_owned()).collect()
}

fn promtool(arguments: &[&str]) -> Option<Output> {
    let program = tools::tool("bin/promtool")?;
    Some(
        Command::new(program)
            .args(arguments)
            .current_dir(tools::root().join("deploy/monitoring"))
            .output()
            .unwrap(),
    )
}

#[test]
fn each_alert_fires_for_its_fault_and_not_without() {
    for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "rules.test.yaml"]] {
        let Some(output) = promtool(&arguments) else { return };
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn every_alert_has_a_test() {
    let read = |name: &str| fs::read_to_string(tools::root().join("deploy/monitoring").join(name)).unwrap();
    let (rules, tests) = (read("rules.yaml"), read("rules.test.yaml"));
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 15, "{alerts:?}");
    let untested: Vec<&str> =
        alerts.into_iter().filter(|alert| !tests.contains(&format!("alertname: {alert}\n"))).collect();
    assert_eq!(untested, Vec::<&str>::new());
}

#[test]
fn dashboards_show_data_and_alerts_fire_when_engines_and_picker_die() {
    let (Some(envoy), Some(prometheus)) = (tools::tool("bin/envoy"), tools::tool("bin/prometheus")) else {
        return;
    };
    let _turn = turn();
    let mut pool = Pool::start(2, "1ms");
    // Requests to an empty pool wait for a second, not for a minute.
    let plugins = format!("{BLEND}\nfeatureGates: [flowControl]\nflowControl: {{defaultRequestTTL: 1s}}");
    let picker = Picker::start(&pool, &plugins, &[]);
    let port = Port { pickers: vec![picker.address], endpoints: pool.engines.clone(), ..Port::default() };
    let gateway = Envoy::start(&envoy, &[port]);
    let prometheus = monitor(&prometheus, &pool.engines, &picker.page, gateway.admin());
    // Few requests while nothing is broken: some alerts are about the share of failures.
    let ask = || {
        let body = json!({"model": "m", "prompt": "Why is the sea salty?", "max_tokens": 5, "stream": true});
        http::post(&gateway.url(0), "/v1/completions", body.to_string(), false).status
    };
    let expected = |all: &[&str]| all.iter().map(|name| format!("Longboat{name}")).collect::<BTreeSet<_>>();

    let answers = |query: &str| !prometheus.series(query).is_empty();
    let mut silent = queries(&DASHBOARDS, ".*", ".*");
    assert!(silent.len() > 50, "{} queries", silent.len());
    until("data for the dashboards", || {
        assert_eq!(ask(), 200);
        silent.retain(|query| !answers(query));
        // Failures have no series until something fails.
        silent.iter().all(|query| query.contains("_error")).then_some(())
    });
    let dead = expected(&["PickerBlind", "EngineDown"]);
    let empty = expected(&["PoolEmpty", "RequestsFail"]);
    let alone = expected(&["GatewayWithoutPicker", "GatewayFails"]);
    // Polled, because a busy machine may miss a scrape.
    until("no alert while nothing is broken", || {
        let firing = firing(&prometheus);
        [&dead, &empty, &alone].iter().all(|faults| faults.is_disjoint(&firing)).then_some(())
    });

    pool.kill();
    until("alerts about dead engines", || dead.is_subset(&firing(&prometheus)).then_some(()));
    pool.know(&[]);
    until("alerts about an empty pool", || {
        assert_ne!(ask(), 200);
        empty.is_subset(&firing(&prometheus)).then_some(())
    });
    until("data for the rest of the dashboards", || {
        silent.retain(|query| !answers(query));
        silent.is_empty().then_some(())
    });
    let unknown: Vec<String> = metrics_of_alerts()
        .into_iter()
        .filter(|metric| !answers(&format!("last_over_time({metric}[10m])")))
        .collect();
    assert_eq!(unknown, Vec::<String>::new(), "metrics that alerts use and nothing serves");

    drop(picker);
    until("alerts about a dead picker", || {
        assert_ne!(ask(), 200);
        alone.is_subset(&firing(&prometheus)).then_some(())
    });
}
