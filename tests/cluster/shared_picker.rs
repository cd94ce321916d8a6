//! Two replicas of the picker that pools share, with exactly the rights of an installation: who picks for a service, and who does when
//! a replica is killed.

use std::{net::TcpStream, process::Command};

use serde_json::{Value, json};

use crate::{
    api::Api,
    binary::longboat,
    cluster::kubectl,
    decisions::address,
    installation::{credentials, install, make_service, prepared},
    program::Running,
    replica::Replica,
    server::{Server, User, free_ports},
    tools,
    wait::until,
};

const NAMESPACE: &str = "kserve";
const PODS: &str = "/api/v1/namespaces/kserve/pods";
const SERVICES: [&str; 2] = ["one", "two"];

/// A replica, whose pod has the address of this machine.
struct Picker {
    process: Running,
    ports: u16,
}

impl Picker {
    fn start(server: &Server, address: &str, number: u16) -> Self {
        let name = format!("picker-{number}");
        let kubeconfig = server.folder.join(format!("{name}.kubeconfig"));
        server.write_kubeconfig(&kubeconfig, &User::Token(&server.token("longboat-picker")));
        let ports = 21_000 + number * 100;
        let [monitoring] = free_ports();
        let mut command = Command::new(longboat());
        command
            .args(["shared-picker", &format!("--ports={ports}-{}", ports + 99), "--close-delay=1s"])
            .args([format!("--pod-name={name}"), format!("--pod-namespace={NAMESPACE}")])
            .args([format!("--pod-ip={address}"), format!("--monitoring-port={monitoring}")])
            .env("KUBECONFIG", kubeconfig);
        let process = Running::start(&mut command);
        let labels =
            json!({"app.kubernetes.io/component": "picker", "app.kubernetes.io/managed-by": "longboat"});
        make_pod(&server.api, &name, address, &labels);
        Self { process, ports }
    }

    fn has(&self, port: u16) -> bool {
        (self.ports..self.ports + 100).contains(&port)
    }
}

/// Creates a pod that is ready, and whose processes the test runs.
fn make_pod(api: &Api, name: &str, ip: &str, labels: &Value) {
    let spec = json!({"containers": [{"name": "main", "image": "x"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec});
    api.post(PODS, &pod).ok();
    say_ready(api, name, ip, "True");
}

fn say_ready(api: &Api, name: &str, ip: &str, ready: &str) {
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": ready}]}});
    api.merge(&format!("{PODS}/{name}/status"), &status).ok();
}

/// Waits until a slice says that another replica than one of this first port picks for a service. Returns its port.
fn place(api: &Api, service: &str, but: Option<&Picker>) -> u16 {
    let name = format!("{service}-kserve-router-scheduler-shared");
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{name}");
    until("a replica says that it picks", || {
        let slice = api.get(&path);
        let slice = (slice.status == 200).then(|| slice.ok())?;
        let port = u16::try_from(slice["ports"][0]["port"].as_u64()?).ok()?;
        (slice["endpoints"][0]["conditions"]["ready"] == true && !but.is_some_and(|picker| picker.has(port)))
            .then_some(port)
    })
}

fn scheduler(api: &Api, service: &str) -> Value {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{service}-kserve-router-scheduler");
    let object = api.get(&path);
    if object.status == 200 { object.ok()["spec"]["replicas"].clone() } else { Value::Null }
}

/// Whether the picker of a service is ready, and why.
fn condition(api: &Api, service: &str) -> Option<(String, String)> {
    let path =
        format!("/apis/serving.kserve.io/v1alpha2/namespaces/{NAMESPACE}/llminferenceservices/{service}");
    let conditions = api.get(&path).ok()["status"]["conditions"].clone();
    let found = conditions.as_array()?.iter().find(|one| one["type"] == "SchedulerWorkloadReady")?.clone();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

#[test]
fn replicas_share_the_pools_and_take_over_those_of_one_that_is_killed() {
    let Some(server) = prepared() else { return };
    let Some(address) = address() else { return };
    let api = &server.api;
    install(&server);
    let path = tools::root().join("deploy/kustomize/components/shared-picker/picker.yaml");
    kubectl(&server, &["apply", "--server-side", "-f", path.to_str().unwrap()]).ok();
    let settings = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/inferenceservice-config");
    api.merge(&settings, &json!({"data": {"longboat": r#"{"picker": "shared"}"#}})).ok();
    let mut controller = Replica::start(&credentials(&server, "controller"), &["--leader-elect"]);
    controller.ready();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // The server has no controller that would make it.
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account);
    for service in SERVICES {
        make_service(&server, NAMESPACE, service);
        until("a new service has no picker", || scheduler(api, service) == json!(0));
        until("the status says that nobody picks", || {
            (condition(api, service)? == ("False".to_owned(), "SharedPickerMissing".to_owned())).then_some(())
        });
        let labels = json!({"app.kubernetes.io/name": service, "app.kubernetes.io/part-of": "llminferenceservice",
            "kserve.io/component": "workload"});
        make_pod(api, &format!("engine-{service}"), "192.0.2.1", &labels);
    }

    let mut pickers = [0, 1].map(|number| Some(Picker::start(&server, &address, number)));
    for service in SERVICES {
        let port = place(api, service, None);
        assert!(TcpStream::connect((address.as_str(), port)).is_ok(), "{service}");
        until("the picker is ready", || {
            (condition(api, service)? == ("True".to_owned(), String::new())).then_some(())
        });
    }

    // Each is killed in turn, so that every pool moves, and comes back with empty state.
    for number in 0..2_u16 {
        let victim = pickers[usize::from(number)].take().unwrap();
        let name = format!("picker-{number}");
        assert!(
            Command::new("kill")
                .args(["-KILL", &victim.process.pid().to_string()])
                .status()
                .unwrap()
                .success()
        );
        say_ready(api, &name, &address, "False");
        for service in SERVICES {
            let port = place(api, service, Some(&victim));
            assert!(TcpStream::connect((address.as_str(), port)).is_ok(), "{service}");
        }
        drop(victim);
        api.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")).ok();
        pickers[usize::from(number)] = Some(Picker::start(&server, &address, number));
    }

    // One that ends by itself hands its pools over first.
    let ends = pickers[0].take().unwrap();
    let pid = ends.process.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    say_ready(api, "picker-0", &address, "False");
    for service in SERVICES {
        place(api, service, Some(&ends));
    }
    let ended = ends.process.end();
    assert!(ended.status.success(), "{ended:#?}");
    controller.assert_running();
    drop(pickers);
    assert!(controller.end("-TERM").success());
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
