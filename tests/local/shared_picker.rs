//! One picker for the pools of two services: going there and back under load, a bad configuration of one, and the death of the picker.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http,
    load::Load,
    local_cluster::{LocalCluster, MODEL, example, longboat, run},
    page::{Feed, Page},
    processes,
    program::Running,
    prometheus::{Prometheus, queries},
    tools,
    wait::until,
};

const SETTINGS: &str = "inferenceservice-config";

/// The picker's Deployment of a service.
fn picker(service: &str) -> String {
    format!("deploy/{service}-kserve-router-scheduler")
}

fn share(world: &LocalCluster, shared: bool) {
    let value = if shared { r#"{"picker": "shared"}"# } else { "{}" };
    let patch = json!({"data": {"longboat": value}}).to_string();
    world.ask(&["patch", "configmap", SETTINGS, "-n", "kserve", "--type=merge", "-p", &patch]);
}

fn replicas(world: &LocalCluster, service: &str) -> Value {
    let deployment = world.object(&[&picker(service)]);
    json!([deployment["spec"]["replicas"], deployment["metadata"]["labels"]["longboat.dev/picker"]])
}

/// The names of the slices that the shared picker has written.
fn slices(world: &LocalCluster) -> Vec<Value> {
    let slices =
        world.object(&["endpointslices", "-l", "endpointslice.kubernetes.io/managed-by=longboat-picker"]);
    slices["items"].as_array().cloned().unwrap_or_default()
}

/// Waits for so many processes of the shared picker.
fn shared_processes(world: &LocalCluster, count: usize) -> Vec<u32> {
    let node = world.node_id();
    until("the processes of the shared picker", || {
        let mut all = processes::with_variable(&node);
        all.retain(|pid| processes::command_line(*pid).contains("shared-picker"));
        (all.len() == count).then_some(all)
    })
}

/// Sends a request with this id. Returns whether a picker has seen it: the pools fail open.
fn is_picked(url: &str, id: &str) -> bool {
    let body = json!({"model": MODEL, "prompt": "Hello", "max_tokens": 1});
    let request = http::client().post(format!("{url}/v1/completions")).header("x-request-id", id).json(&body);
    let answer = http::block(async { http::read(request.send().await.unwrap()).await });
    answer.headers.contains_key("x-went-into-resp-headers")
}

/// Dashboards whose series pickers have.
const DASHBOARDS: [&str; 2] = ["longboat-services", "longboat-picker"];

/// Selectors of the series of a service that alerts about pickers use.
fn selectors_of_alerts(service: &str) -> BTreeSet<String> {
    let rules = std::fs::read_to_string(tools::root().join("deploy/monitoring/rules.yaml")).unwrap();
    let words = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics = words.filter(|word| word.starts_with("llm_d_epp_"));
    metrics.map(|metric| format!("{metric}{{namespace=\"default\", service_name=\"{service}\"}}")).collect()
}

/// Waits until a real Prometheus, if it is installed, answers every query of the dashboards for each service, with its own pods, and
/// has the series that the alerts use.
fn look_at_metrics(address: &str) {
    let Some(program) = tools::tool("bin/prometheus") else { return };
    // As the monitor of `deploy/kustomize/components/monitoring`.
    let jobs = json!([{
        "job_name": "longboat-picker", "honor_labels": true,
        "static_configs": [{"targets": [format!("{address}:9090")], "labels": {"namespace": "kserve"}}],
    }]);
    let prometheus = Prometheus::start(&program, &jobs, "", Running::start);
    for service in ["qwen", "other"] {
        let mut silent = queries(&DASHBOARDS, "default", service);
        silent.extend(selectors_of_alerts(service));
        // Nothing fails here, and engines have series of their own.
        silent.retain(|query| query.contains("llm_d_epp_") && !query.contains("_error"));
        assert!(silent.len() > 25, "{silent:#?}");
        let pods = format!("{service}-kserve-");
        let mut seen = 0;
        until("data for the dashboards", || {
            silent.retain(|query| {
                let series = prometheus.series(query);
                for labels in series.iter().map(|series| &series["metric"]) {
                    for label in ["endpoint_name", "model_server_endpoint"] {
                        let Some(pod) = labels[label].as_str() else { continue };
                        assert!(pod.starts_with(&pods), "{query}: {labels}");
                        seen += 1;
                    }
                }
                series.is_empty()
            });
            silent.is_empty()
        });
        assert!(seen > 1, "no query names a pod");
    }
}

#[test]
fn two_services_share_a_picker_and_get_theirs_back_without_losing_a_request() {
    if tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("two.yaml");
    let config = json!({"inline": {
        "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig", "featureGates": ["flowControl"],
        "plugins": [{"type": "queue-scorer"}, {"type": "prefix-cache-scorer"}],
    }});
    let one = std::fs::read_to_string(example()).unwrap();
    let one = one.replace("scheduler: {}", &format!("scheduler: {}", json!({"config": config})));
    std::fs::write(&file, format!("{one}\n---\n{}", one.replace("name: qwen", "name: other"))).unwrap();
    let world = LocalCluster::start(&[file.to_str().unwrap()]);
    let other = world.url.replace("/default/qwen", "/default/other");
    let loads =
        [Load::start(&world.url, MODEL), Load::streams(&world.url, MODEL), Load::streams(&other, MODEL)];
    let go_on = || loads.iter().for_each(Load::goes_on);

    share(&world, true);
    for service in ["qwen", "other"] {
        until("the picker is shared", || replicas(&world, service) == json!([0, "shared"]));
    }
    let pickers = "app.kubernetes.io/component=llminferenceservice-router-scheduler";
    until("no pod of a service picks", || world.object(&["pods", "-l", pickers])["items"] == json!([]));
    go_on();
    let places: Vec<Value> = slices(&world).iter().map(|slice| slice["ports"][0]["port"].clone()).collect();
    assert_eq!(places.len(), 2, "{places:?}");
    assert_ne!(places[0], places[1], "each pool has a port of its own");
    assert!(is_picked(&world.url, "shared-1") && is_picked(&other, "shared-2"), "nobody has picked");
    let why =
        |id: &str| run(longboat("why", folder.path()).arg(id).env("KUBECONFIG", &world.kubeconfig)).ok();
    assert!(why("shared-1").contains("qwen-kserve-"), "{}", why("shared-1"));
    assert!(why("shared-2").contains("other-kserve-"), "{}", why("shared-2"));
    let status = run(longboat("status", folder.path()).arg("qwen").env("KUBECONFIG", &world.kubeconfig)).ok();
    assert!(status.contains("the shared picker picks"), "{status}");

    // The dashboard has the decisions and the numbers of each service, although no pod of the service picks.
    let page = Page::of(&world);
    for (service, id, other) in [("qwen", "shared-1", "shared-2"), ("other", "shared-2", "shared-1")] {
        let decisions = |id: &str| {
            page.get(&format!("/api/decisions?service=default/{service}&id={id}")).json()["decisions"].clone()
        };
        assert_eq!(decisions(id)[0]["id"], id, "{service}");
        assert_eq!(decisions(other), json!([]), "{service}");
        let mut feed = Feed::open(&page, &format!("default/{service}"));
        feed.until("replicas", |data| {
            let is_picker =
                |one: &Value| one["role"] == "picker" && one["sample"]["picks"].as_f64() > Some(0.0);
            data["replicas"].as_array().unwrap().iter().any(is_picker)
        });
    }

    // One page has the series of both pools, as dashboards and alerts select them.
    let pod = world.object(&["pods", "-n", "kserve", "-l", "app.kubernetes.io/component=picker"]);
    let address = pod["items"][0]["status"]["podIP"].as_str().unwrap().to_owned();
    look_at_metrics(&address);

    // Pools move to a second replica, and from each that is killed to the other.
    world.ask(&["scale", "deploy/longboat-picker", "-n", "kserve", "--replicas=2"]);
    world.ask(&["rollout", "status", "deploy/longboat-picker", "-n", "kserve"]);
    for (number, pid) in shared_processes(&world, 2).into_iter().enumerate() {
        processes::signal("KILL", pid);
        let id = format!("killed-{number}");
        until("another replica picks", || is_picked(&world.url, &id) && is_picked(&other, &id));
        shared_processes(&world, 2);
        go_on();
    }

    // A configuration that only a pod can have gives one service its pod back, and the other one notices nothing.
    let needy = r#"{"spec": {"router": {"scheduler": {"template": {"containers": [
        {"name": "main", "args": ["--health-checking"]}]}}}}}"#;
    world.ask(&["patch", "llmisvc", "other", "--type=merge", "-p", needy]);
    until("the service has its own picker", || replicas(&world, "other") == json!([1, "shared"]));
    let reason = || {
        let path = "jsonpath={.status.conditions[?(@.type==\"SchedulerWorkloadReady\")].reason}";
        world.ask(&["get", "llmisvc", "other", "-o", path])
    };
    until("the status says why", || reason() == "PickerNeedsPod");
    assert_eq!(replicas(&world, "qwen"), json!([0, "shared"]));
    assert!(is_picked(&world.url, "still"), "nobody has picked");
    go_on();

    // A service that asks for its own picker gets it while the other one shares on, and then shares again.
    let ask_for = |value: &str| {
        world.ask(&["annotate", "llmisvc", "qwen", &format!("longboat.dev/picker{value}")]);
    };
    for (number, (value, expected)) in
        [("=own", json!([1, "own"])), ("-", json!([0, "shared"]))].into_iter().enumerate()
    {
        ask_for(value);
        until("the service has moved", || replicas(&world, "qwen") == expected);
        assert!(is_picked(&world.url, &format!("moved-{number}")), "nobody has picked");
        go_on();
    }

    share(&world, false);
    for service in ["qwen", "other"] {
        until("it has a picker of its own", || replicas(&world, service) == json!([1, "own"]));
    }
    until("the slices are gone", || slices(&world).is_empty());
    go_on();
    assert!(is_picked(&world.url, "own") && is_picked(&other, "own"), "nobody has picked");
    let answered = loads.iter().map(Load::answered).sum::<usize>();
    for load in loads {
        assert_eq!(load.end(), Vec::<String>::new(), "requests that failed, of {answered}");
    }
}

#[test]
fn a_service_that_meets_a_limit_of_the_shared_picker_says_which() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::start(&[example().to_str().unwrap()]);
    share(&world, true);
    until("the picker is shared", || replicas(&world, "qwen") == json!([0, "shared"]));
    // No request has so few bytes.
    let small = r#"{"spec": {"router": {"scheduler": {"template": {"containers": [
        {"name": "main", "args": ["--max-request-bytes-in-flight=10", "--max-request-body-size=10"]}]}}}}}"#;
    world.ask(&["patch", "llmisvc", "qwen", "--type=merge", "-p", small]);
    let request = json!({"model": MODEL, "prompt": "Hello", "max_tokens": 1});
    let refused = || http::post(&format!("{}/v1/completions", world.url), &request).status == 503;
    until("requests are refused", refused);
    let condition = || {
        let conditions = world.object(&["llmisvc", "qwen"])["status"]["conditions"].clone();
        let mut all = conditions.as_array().cloned().unwrap_or_default().into_iter();
        let found = all.find(|one| one["type"] == "SchedulerWorkloadReady")?;
        Some(json!([found["status"], found["reason"], found["message"]]))
    };
    let says = |limit: &str| {
        let message = format!(
            "The shared picker has refused requests of this service, for which it takes at most {limit}: \
             raise the limit, or give the service a picker of its own with the annotation longboat.dev/picker: own"
        );
        let expected = json!(["True", "SharedPickerLimited", message]);
        until("the status names the limit", || (condition()? == expected).then_some(()));
    };
    says("10 bytes of requests in memory (flag --max-request-bytes-in-flight of the service's picker)");
    // Further refusals write nothing.
    let version = || slices(&world)[0]["metadata"]["resourceVersion"].clone();
    let before = version();
    assert!((0..20).all(|_| refused()), "a request passed");
    let pod = world.object(&["pods", "-n", "kserve", "-l", "app.kubernetes.io/component=picker"]);
    let address = pod["items"][0]["status"]["podIP"].as_str().unwrap().to_owned();
    let series =
        "longboat_shared_picker_refusals_total{namespace=\"default\",service_name=\"qwen\",limit=\"bytes\"} ";
    let page = until("the metrics count them", || {
        let request = http::client().get(format!("http://{address}:9090/metrics"));
        let page = http::block(async { request.send().await.ok()?.text().await.ok() })?;
        let count = page.lines().find_map(|line| line.strip_prefix(series))?;
        (count.parse::<u32>().ok()? > 20).then_some(page)
    });
    let manual = std::fs::read_to_string(tools::root().join("docs/reference/metrics.md")).unwrap();
    let own = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let untold: Vec<_> = own.filter(|(name, _)| !manual.contains(&format!("`{name}"))).collect();
    assert_eq!(untold, [], "docs/reference/metrics.md lacks series");
    assert_eq!(version(), before);
    // With a limit of the platform again, there is nothing to say.
    world.ask(&[
        "patch",
        "llmisvc",
        "qwen",
        "--type=merge",
        "-p",
        r#"{"spec": {"router": {"scheduler": {"template": null}}}}"#,
    ]);
    until("the status names no limit", || (condition()? == json!(["True", null, null])).then_some(()));
    assert!(is_picked(&world.url, "large-enough"), "nobody has picked");

    // Beyond the limit of open requests, the gateway goes on without the picker.
    let none = json!([{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--max-pool-requests=0"]}]);
    world.ask(&[
        "patch",
        "deploy",
        "longboat-picker",
        "-n",
        "kserve",
        "--type=json",
        "-p",
        &none.to_string(),
    ]);
    until("nobody picks", || !is_picked(&world.url, "too-many"));
    says("0 open requests (flag --max-pool-requests of the shared picker)");
}
