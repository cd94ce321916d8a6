//! Services are edited, created and deleted at random, while the controller's requests fail in every way. When the faults stop,
//! everything becomes as if they had never happened, and the controller uses no more resources than before.
//!
//! `LONGBOAT_SOAK_SECONDS` sets the duration, and `LONGBOAT_SOAK_SEED` the random seed.

mod collector;
mod edits;
mod faults;
mod gauges;
mod proxy;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    ops::Range,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use self::{
    collector::collect,
    edits::{Editor, NAMES, services},
    gauges::{Curve, Sample},
    proxy::Proxy,
};
use crate::{
    api::Api,
    cluster::Cluster,
    log::Log,
    process::Process,
    ready::make_ready,
    server::free_ports,
    shapes::{put, shapes},
    snapshot::{Snapshot, children, differences, snapshot},
    tools,
    wait::until,
};

/// The default duration.
const SECONDS: u64 = 45;
const SEED: u64 = 7;
const SLOTS: usize = 8;
const PREFIX: &str = "soak-";
/// Time between two edits.
const PERIOD: Duration = Duration::from_millis(150);
/// Time between two rounds of reported readiness and garbage collection.
const ROUND: Duration = Duration::from_secs(2);
/// Time between two measurements of the controller.
const SAMPLE: Duration = Duration::from_millis(500);
/// Time between two outages of the API server ([`AWAY`] is their length), in milliseconds. An outage is shorter than the time
/// after which the leader gives up its lease.
const BETWEEN: Range<u64> = 10_000..40_000;
const AWAY: Range<u64> = 500..4000;
/// Longer than the controller's longest retry delay.
const CONVERGED: Duration = Duration::from_mins(6);
/// By how much memory may grow from the first third of the time to the last: freed memory that the allocator keeps.
const GROWTH_KIB: u64 = 12 * 1024;
/// By how much the numbers of files and tasks may vary: connections to the API server come and go, and each has a file and two
/// tasks.
const CONNECTIONS: u64 = 24;
/// The log message of a controller that could not renew its lease in time, for example because etcd was too busy.
const LEASE_LOST: &str = "lost the lease";
/// Traces of an earlier shape that a service keeps by design: a part of the reported difference, and the reason.
const KEPT: [(&str, &str); 7] = [
    (".status.observedGeneration: ", "it counts the edits"),
    (".labels.team: ", "labels that are taken away stay on a child"),
    (".spec.replicas: ", "who names no number of replicas leaves it to others"),
    (".status.workloads.primary.readyReplicas: ", "the same"),
    (
        "-router-scheduler.spec.template.spec.containers[0].args[1]: ",
        "a picker keeps a configuration that is no default, and an event says so",
    ),
    ("inference-pool-migrated", "a route that has moved to the newer group of pools has done so for good"),
    ("backendRefs[0].group: ", "the same"),
];

#[test]
fn services_become_what_they_would_be_without_the_faults_and_nothing_is_left_of_them() {
    if tools::kubectl().is_none() {
        return;
    }
    let Some(cluster) = Cluster::start() else { return };
    let number =
        |name: &str, default: u64| env::var(name).map_or(default, |value| value.parse().expect("a number"));
    let seed = number("LONGBOAT_SOAK_SEED", SEED);
    let time = Duration::from_secs(number("LONGBOAT_SOAK_SECONDS", SECONDS));
    let api = &cluster.server.api;
    let authority = fs::read_to_string(cluster.server.folder.join("ca.crt")).unwrap();
    let proxy = Proxy::start(seed, &cluster.server.url, &authority);
    let [metrics] = free_ports();
    let behind = kubeconfig(&cluster, &proxy);
    let mut controller = Process::take_over(&cluster, |arguments, kubeconfig| {
        arguments.retain(|argument| !argument.starts_with("--metrics"));
        arguments.push(format!("--metrics-addr=127.0.0.1:{metrics}"));
        arguments.push("--metrics-secure=false".to_owned());
        kubeconfig.clone_from(&behind);
    });
    let metrics = format!("http://127.0.0.1:{metrics}/metrics");

    let slots: Vec<String> = (0..SLOTS).map(|number| format!("{PREFIX}{number:02}")).collect();
    let shapes = shapes();
    prepare(&cluster, &slots, &shapes);
    let mut editor = Editor::new(api, seed, slots.clone(), &shapes);
    editor.fill();
    let log = Log::new(&cluster);
    settle(api, &slots, &log);
    say(&format!("{SLOTS} services are ready; {} s of edits and faults", time.as_secs()));
    let calm = Sample::take(&controller, &metrics).unwrap();

    let curve = soak(&cluster, &proxy, &mut editor, &mut controller, &metrics, (seed, time));
    say(&format!("seed {seed}, {} s; edits: {:#?}", time.as_secs(), editor.done()));
    say(&format!("faults: {:#?}", proxy.happened()));
    let end = Instant::now();
    let found = settle(api, &slots, &log);
    say(&format!("everything is ready {:.1} s after the last fault", end.elapsed().as_secs_f64()));
    let rest = Sample::take(&controller, &metrics).unwrap();
    let [first, second, last] = curve.thirds();
    say(&format!(
        "held before: {calm}\nfirst third: {first}\nsecond:      {second}\nlast:        {last}\nat rest:     {rest}\n({} samples)",
        curve.len()
    ));
    let said = controller.log();
    assert!(!said.contains("panicked"), "{said}");

    let (mark, told) = (log.mark(), events(api, &slots));
    controller.restart();
    log.rest();
    let mut again = log.written(mark);
    // A restart may write Events: the one about leadership, and late ones about services, which are only printed. Nothing
    // depends on them, and half an hour of faults has once lost one.
    again.retain(|write| !write.contains("/events?"));
    for (name, said) in events(api, &slots) {
        if !told.contains_key(&name) {
            say(&format!("told by a restart only: {said}"));
        }
    }
    assert!(again.is_empty(), "a restart finds something to do: {again:#?}");

    let kept: Vec<(String, Value)> = slots.iter().flat_map(|slot| living(api, slot)).collect();
    for (path, service) in &kept {
        api.delete(&format!("{path}/{}", service["metadata"]["name"].as_str().unwrap())).ok();
    }
    for (path, service) in &kept {
        let path = format!("{path}/{}", service["metadata"]["name"].as_str().unwrap());
        until("a deleted service is gone", || {
            start_successor(&mut controller);
            api.get(&path).status == 404
        });
    }
    until("nothing is left to collect", || collect(api, PREFIX) == 0);
    let left: Vec<String> = slots.iter().flat_map(|slot| children(api, slot)).collect();
    assert!(left.is_empty(), "nobody removes these: {left:#?}");

    for (path, service) in &kept {
        api.post(path, service).ok();
    }
    let wanted = settle(api, &slots, &log);
    let mut wrong = differences(&found, &wanted);
    wrong.retain(|difference| !KEPT.iter().any(|(part, _)| difference.contains(part)));
    assert!(wrong.is_empty(), "after the faults (first) and without any (second):\n{}", wrong.join("\n"));

    // The amount of work is constant, so the usage of memory, tasks, threads and files must be, too.
    assert!(last.memory_kib <= first.memory_kib + GROWTH_KIB, "memory grows: {first}; {second}; {last}");
    for (name, of) in [
        ("threads", (|sample| sample.threads) as fn(&Sample) -> u64),
        ("files", |sample| sample.files),
        ("tasks", |sample| sample.tasks),
    ] {
        assert!(of(&last) <= of(&first) + CONNECTIONS, "{name} grow: {first}; {second}; {last}");
        assert!(of(&rest) <= of(&calm) + CONNECTIONS, "{name} are left: {calm}; {rest}");
    }
}

/// Writes a kubeconfig with which the controller reaches the API server through the proxy.
fn kubeconfig(cluster: &Cluster, proxy: &Proxy) -> PathBuf {
    let folder = &cluster.server.folder;
    let direct = fs::read_to_string(folder.join("controller.kubeconfig")).unwrap();
    let mut config: Value = serde_json::from_str(&direct).unwrap();
    let authority = folder.join("faults.crt");
    fs::write(&authority, &proxy.authority).unwrap();
    config["clusters"][0]["cluster"] = json!({"server": proxy.url, "certificate-authority": authority});
    let path = folder.join("faulty.kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Creates the slots with all objects that shapes refer to.
fn prepare(cluster: &Cluster, slots: &[String], shapes: &[(String, Vec<Value>)]) {
    let api = &cluster.server.api;
    let prometheus = json!({"prometheus": {"url": "https://prometheus.example.com:9090"}}).to_string();
    let settings = json!({"data": {"autoscaling-wva-controller-config": prometheus}});
    api.merge("/api/v1/namespaces/kserve/configmaps/inferenceservice-config", &settings).ok();
    make_ready(api, &BTreeSet::from(["kserve"]));
    for slot in slots {
        cluster.namespace(slot);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        api.post(&format!("/api/v1/namespaces/{slot}/serviceaccounts"), &account);
        let objects = shapes.iter().flat_map(|(_, objects)| objects);
        for object in objects.filter(|object| object["kind"] != "LLMInferenceService") {
            put(api, slot, object);
        }
    }
}

/// Edits services under faults until the time is over. Returns the controller's resource usage meanwhile.
fn soak(
    cluster: &Cluster,
    proxy: &Proxy,
    editor: &mut Editor,
    controller: &mut Process,
    metrics: &str,
    (seed, time): (u64, Duration),
) -> Curve {
    let api = &cluster.server.api;
    let end = Instant::now() + time;
    let goes_on = || Instant::now() < end;
    proxy.set_faulty(true);
    let curve = thread::scope(|scope| {
        scope.spawn(|| {
            while goes_on() {
                collect(api, PREFIX);
                make_ready(api, &slots_of(api).iter().map(String::as_str).collect());
                thread::sleep(ROUND);
            }
        });
        scope.spawn(|| {
            let mut random = StdRng::seed_from_u64(seed);
            let mut pause =
                |range: Range<u64>| thread::sleep(Duration::from_millis(random.random_range(range)));
            loop {
                pause(BETWEEN);
                if !goes_on() {
                    return;
                }
                proxy.set_away(true);
                pause(AWAY);
                proxy.set_away(false);
            }
        });
        let samples = scope.spawn(|| {
            let mut curve = Curve::default();
            while goes_on() {
                if !start_successor(controller)
                    && let Some(sample) = Sample::take(controller, metrics)
                {
                    curve.add(sample);
                }
                thread::sleep(SAMPLE);
            }
            curve
        });
        while goes_on() {
            editor.step();
            thread::sleep(PERIOD);
        }
        editor.tidy(|path| until("a config goes", || api.get(path).status == 404));
        samples.join().unwrap()
    });
    proxy.set_faulty(false);
    curve
}

/// Starts the next controller if this one has lost its lease and ended, as it must if etcd is too slow. Returns whether it did.
fn start_successor(controller: &mut Process) -> bool {
    if controller.is_running() {
        return false;
    }
    let said = controller.log();
    assert!(said.contains(LEASE_LOST) && !said.contains("panicked"), "it ended: {said}");
    say("it lost the lease and ended, as it has to; the next one starts");
    controller.succeed();
    true
}

fn slots_of(api: &Api) -> Vec<String> {
    let all = api.get("/api/v1/namespaces").ok();
    let names =
        all["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    names.filter(|name| name.starts_with(PREFIX)).map(str::to_owned).collect()
}

/// Waits until every service is ready and nothing is written any more. Returns the snapshot.
fn settle(api: &Api, slots: &[String], log: &Log) -> Snapshot {
    let namespaces: BTreeSet<&str> = slots.iter().map(String::as_str).collect();
    let deadline = Instant::now() + CONVERGED;
    loop {
        let collected = collect(api, PREFIX);
        let news = make_ready(api, &namespaces);
        let mark = log.mark();
        log.rest();
        let unready: Vec<String> = slots.iter().flat_map(|slot| unready(api, slot)).collect();
        if collected == 0 && !news && log.written(mark).is_empty() && unready.is_empty() {
            return snapshot(api, &namespaces);
        }
        assert!(Instant::now() < deadline, "these do not become ready:\n{}", unready.join("\n"));
    }
}

/// Returns the Events in these namespaces by namespace and name.
fn events(api: &Api, slots: &[String]) -> BTreeMap<String, String> {
    let lists = slots.iter().map(|slot| api.get(&format!("/api/v1/namespaces/{slot}/events")).ok());
    let all: Vec<Value> =
        lists.flat_map(|list| list["items"].as_array().cloned().unwrap_or_default()).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |event: &Value| {
        let metadata = &event["metadata"];
        let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        (name.clone(), format!("{name}: {} {}", text(&event["reason"]), text(&event["message"])))
    };
    all.iter().map(named).collect()
}

/// Returns the services that are not in their expected state, with their conditions.
fn unready(api: &Api, slot: &str) -> Vec<String> {
    let list = api.get(&services(slot)).ok();
    let all = list["items"].as_array().unwrap().iter();
    let wrong = all.filter(|service| {
        let conditions = service["status"]["conditions"].as_array();
        let ready = conditions
            .into_iter()
            .flatten()
            .any(|found| found["type"] == "Ready" && found["status"] == "True");
        let stopped = service["metadata"]["annotations"]["serving.kserve.io/stop"] == "true";
        let current = service["status"]["observedGeneration"] == service["metadata"]["generation"];
        !current || ready == stopped || service["metadata"]["deletionTimestamp"].is_string()
    });
    wrong.map(|service| format!("{slot}: {service}")).collect()
}

/// Returns the services of a slot in the form in which somebody would create them, with their collection path.
fn living(api: &Api, slot: &str) -> Vec<(String, Value)> {
    let path = services(slot);
    let found =
        NAMES.iter().map(|name| api.get(&format!("{path}/{name}"))).filter(|answer| answer.status == 200);
    let made = found.map(|answer| {
        let service = answer.ok();
        let metadata = &service["metadata"];
        json!({
            "apiVersion": service["apiVersion"], "kind": service["kind"], "spec": service["spec"],
            "metadata": {"name": metadata["name"], "labels": metadata["labels"], "annotations": metadata["annotations"]},
        })
    });
    made.map(|service| (path.clone(), service)).collect()
}

#[expect(
    clippy::print_stdout,
    reason = "what went wrong how often, and the curve, are what a long run is read for"
)]
fn say(line: &str) {
    println!("{line}");
}
