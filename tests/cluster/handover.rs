//! Controller replicas take over from each other while services are created and edited all the time. The audit log shows which
//! replica wrote what and when: it identifies a replica by its token.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    installation::{credentials, grant, install, make_service},
    replica::Replica,
    server::Server,
    tools,
    wait::until,
};

const NAMESPACE: &str = "handover";
/// Logs all writes in the namespace and to the lease, with their responses, and the controller's refused requests.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: RequestResponse
    namespaces: [handover]
    verbs: [create, update, patch, delete]
  - level: RequestResponse
    verbs: [create, update]
    resources: [{group: coordination.k8s.io, resources: [leases]}]
  - level: Metadata
    users: ['system:serviceaccount:kserve:llmisvc-controller-manager']
  - level: None
";
/// How long the load goes on before each replica is ended, and before the load ends.
const WHILE: Duration = Duration::from_secs(4);
/// Time between two edits.
const PERIOD: Duration = Duration::from_millis(120);
/// The default duration of the lease.
const LEASE: SignedDuration = SignedDuration::from_secs(15);

/// One audited request that has a response.
struct AuditedRequest {
    event: Value,
    at: Timestamp,
}

/// A replica and the id (`jti`) of its token.
struct Known {
    replica: Replica,
    token: String,
}

// === impl AuditedRequest ===

impl AuditedRequest {
    fn is_by(&self, token: &str) -> bool {
        self.event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0] == format!("JTI={token}")
    }

    fn object(&self) -> String {
        let object = &self.event["objectRef"];
        let part = |name: &str| object[name].as_str().unwrap_or_default();
        // In a create request, only the object has the name.
        let created = self.event["requestObject"]["metadata"]["name"].as_str().unwrap_or_default();
        let name = Some(part("name")).filter(|name| !name.is_empty()).unwrap_or(created);
        format!("{} {} {name}", part("apiGroup"), part("resource"))
    }

    fn is_lease(&self) -> bool {
        self.event["objectRef"]["resource"] == "leases"
    }

    /// Whether the request writes a service, its status or a child. Writes of Events do not count.
    fn is_work(&self) -> bool {
        let dry = self.event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun"));
        !self.is_lease() && !dry && self.event["objectRef"]["resource"] != "events"
    }

    fn went_well(&self) -> bool {
        self.event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300)
    }

    fn holder(&self) -> &str {
        self.event["responseObject"]["spec"]["holderIdentity"].as_str().unwrap_or_default()
    }
}

#[test]
fn no_two_replicas_write_at_the_same_time_nothing_is_written_twice_and_nothing_is_missed() {
    if tools::kubectl().is_none() {
        return;
    }
    let Some(server) = Server::audited(POLICY) else { return };
    grant(&server);
    install(&server);
    server.api.make_namespace(NAMESPACE);
    let mut first = start(&server, "first");
    until("the first replica leads", || first.replica.leads());
    let mut second = start(&server, "second");

    let stop = AtomicBool::new(false);
    let (tokens, asked_to_stop, killed, third) = thread::scope(|scope| {
        let load = scope.spawn(|| load(&server, &stop));
        thread::sleep(WHILE);
        first.replica.assert_running();
        let asked_to_stop = Timestamp::now();
        assert!(first.replica.end("-TERM").success());
        until("the second replica leads", || second.replica.leads());
        let third = start(&server, "third");
        thread::sleep(WHILE);
        second.replica.assert_running();
        let killed = Timestamp::now();
        assert!(!second.replica.end("-KILL").success());
        until("the third replica leads", || third.replica.leads());
        thread::sleep(WHILE);
        stop.store(true, Ordering::SeqCst);
        load.join().unwrap();
        ([first.token, second.token, third.token.clone()], asked_to_stop, killed, third)
    });
    let services = "/apis/serving.kserve.io/v1alpha2/namespaces/handover/llminferenceservices";
    let all = server.api.get(services).ok();
    for service in all["items"].as_array().unwrap() {
        until("the service's last edit is seen", || {
            let path = format!("{services}/{}", service["metadata"]["name"].as_str().unwrap());
            let service = server.api.get(&path).ok();
            service["status"]["observedGeneration"] == service["metadata"]["generation"]
        });
    }
    let made = |path: &str| server.api.get(path).ok()["items"].as_array().unwrap().len();
    until("each service has its workload, its picker and its route", || {
        let deployments = made(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"));
        let routes = made(&format!("/apis/gateway.networking.k8s.io/v1/namespaces/{NAMESPACE}/httproutes"));
        deployments == 2 * made(services) && routes == made(services)
    });
    assert!(third.replica.end("-TERM").success());

    let log = read(&server);
    once(&log, &tokens[1]);
    something(&log);
    let spans = spans(&log, &tokens);
    for [one, next] in spans.array_windows() {
        assert!(one.1 < next.0, "two write at the same time: {spans:?}");
    }
    let taken = tokens.each_ref().map(|token| {
        let mut leases =
            log.iter().filter(|asked| asked.is_lease() && asked.went_well() && asked.is_by(token));
        leases.next().unwrap().at
    });
    let of_first = || log.iter().filter(|asked| asked.is_lease() && asked.is_by(&tokens[0]));
    let given_back =
        of_first().find(|asked| asked.holder().is_empty()).expect("the first gives the lease back");
    assert!(
        spans[0].1 <= given_back.at,
        "it writes after it gave the lease back: {spans:?}, {}",
        given_back.at
    );
    assert!(taken[1] < given_back.at + LEASE, "the second waits for what is free");
    let renewed = log.iter().rfind(|asked| asked.is_lease() && asked.went_well() && asked.is_by(&tokens[1]));
    let renewed = renewed.unwrap().at;
    assert!(taken[2] >= renewed + LEASE, "the third takes what is not free: {renewed}, {}", taken[2]);
    say(&format!(
        "{} services; asked to stop: the next leads after {:.3} s and writes after {:.3} s; killed: {:.3} s and {:.3} s",
        all["items"].as_array().unwrap().len(),
        taken[1].duration_since(asked_to_stop).as_secs_f64(),
        spans[1].0.duration_since(asked_to_stop).as_secs_f64(),
        taken[2].duration_since(killed).as_secs_f64(),
        spans[2].0.duration_since(killed).as_secs_f64(),
    ));
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}

/// Starts a replica with its own token and waits until it is ready.
fn start(server: &Server, name: &str) -> Known {
    let kubeconfig = credentials(server, name);
    let config: Value = serde_json::from_str(&std::fs::read_to_string(&kubeconfig).unwrap()).unwrap();
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let mut replica = Replica::start(&kubeconfig, &["--leader-elect"]);
    replica.ready();
    Known { replica, token: claims["jti"].as_str().unwrap().to_owned() }
}

/// Creates a service, edits existing ones, creates the next one, and so on, until `stop` is set.
fn load(server: &Server, stop: &AtomicBool) {
    for number in 0.. {
        let name = format!("llm-{number}");
        make_service(server, NAMESPACE, &name);
        for edit in 0..3 {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(PERIOD);
            let path = format!(
                "/apis/serving.kserve.io/v1alpha2/namespaces/{NAMESPACE}/llminferenceservices/llm-{}",
                (number * 7 + edit) % (number + 1)
            );
            let replicas = 1 + (number + edit) % 5;
            server.api.merge(&path, &json!({"spec": {"replicas": replicas}})).ok();
        }
    }
}

/// Returns all answered requests in the order in which the server received them.
fn read(server: &Server) -> Vec<AuditedRequest> {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let writes = ["create", "update", "patch", "delete"];
    let mut asked: Vec<AuditedRequest> = events
        .filter(|event| event["stage"] == "ResponseComplete")
        .filter(|event| event["verb"].as_str().is_some_and(|verb| writes.contains(&verb)))
        .map(|event| AuditedRequest {
            at: event["requestReceivedTimestamp"].as_str().unwrap().parse().unwrap(),
            event,
        })
        .collect();
    asked.sort_by_key(|asked| asked.at);
    asked
}

/// Checks that no object is created twice. A replica that has just begun to lead may try, because its cache may lack its
/// predecessor's last writes: the server refuses that, and the test prints it. Requests of the `killed` replica may time out.
fn once(log: &[AuditedRequest], killed: &str) {
    let mut created = BTreeMap::<String, Vec<String>>::new();
    let creations = log.iter().filter(|asked| asked.is_work() && asked.event["verb"] == "create");
    let (done, refused): (Vec<_>, Vec<_>) = creations.partition(|asked| asked.went_well());
    for asked in refused {
        if asked.is_by(killed) && asked.event["responseStatus"]["code"] == 504 {
            say(&format!("{} was given up", asked.object()));
            continue;
        }
        assert_eq!(asked.event["responseStatus"]["code"], 409, "{:#}", asked.event);
        say(&format!("{} was there already", asked.object()));
    }
    for asked in done {
        let what = format!("{} {} {}", asked.at, asked.event["user"]["extra"], asked.event["responseStatus"]);
        created.entry(asked.object()).or_default().push(what);
    }
    created.retain(|_, times| times.len() > 1);
    assert!(created.is_empty(), "created more than once: {created:#?}");
}

/// Checks that each write changes its object. A replica that has just begun to lead may repeat one of its predecessor's last
/// writes, because its cache may lack them, and the test prints that. No replica repeats its own writes.
fn something(log: &[AuditedRequest]) {
    let mut seen = BTreeMap::new();
    let writes = log.iter().filter(|asked| asked.is_work() && asked.went_well());
    let mut nothing: Vec<String> = Vec::new();
    for asked in writes.filter(|asked| asked.event["verb"] != "delete") {
        let revision = asked.event["responseObject"]["metadata"]["resourceVersion"].as_str();
        let Some(revision) = revision else { continue };
        // A test's edit may ask for the value that an object already has.
        let edited = asked.event["user"]["username"] == "admin";
        let replica = asked.event["user"]["extra"].to_string();
        let before = seen.insert((asked.object(), revision.to_owned()), replica.clone());
        let what = || format!("{} {} {}", asked.at, asked.event["verb"], asked.event["requestURI"]);
        match before {
            Some(before) if before == replica && !edited => nothing.push(what()),
            Some(_) if !edited => say(&format!("{} was done already", what())),
            _ => {}
        }
    }
    assert!(seen.len() > 100, "only {} writes were looked at", seen.len());
    assert!(nothing.is_empty(), "these change nothing: {nothing:#?}");
}

/// The times of the first and the last write of each replica.
fn spans(log: &[AuditedRequest], tokens: &[String; 3]) -> [(Timestamp, Timestamp); 3] {
    tokens.each_ref().map(|token| {
        let mut times =
            log.iter().filter(|asked| asked.is_work() && asked.is_by(token)).map(|asked| asked.at);
        let first = times.next().expect("each replica writes");
        (first, times.next_back().unwrap_or(first))
    })
}

#[expect(clippy::print_stdout, reason = "how long it takes is what this test is read for, too")]
fn say(line: &str) {
    println!("{line}");
}
