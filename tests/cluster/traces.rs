//! The traces that the controller exports, compared with the audit log of the API server.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};

use crate::{
    api::{block, text_of},
    collector::{Arrived, Collector},
    installation::{credentials, install, make_service, prepared, served},
    policy::refuse,
    replica::Replica,
    server::Server,
    wait::until,
};

const NAMESPACE: &str = "traced";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/traced/deployments";
/// The message with which Deployments are refused.
const REFUSAL: &str = "no deployments of this name here";

/// The exported spans of one trace.
struct Trace {
    root: Arrived,
    /// All spans except the root.
    spans: Vec<Arrived>,
}

/// A write: verb and resource, and the status code of the response.
type Write = (String, u64);

// === impl Trace ===

impl Trace {
    fn below<'a>(&'a self, parent: &'a Arrived) -> impl Iterator<Item = &'a Arrived> {
        self.spans.iter().filter(|found| found.span.parent_span_id == parent.span.span_id)
    }

    /// The names of the phases, in the order of their start.
    fn phases(&self) -> Vec<&str> {
        let mut phases: Vec<&Arrived> = self.below(&self.root).filter(|found| !is_write(found)).collect();
        phases.sort_by_key(|found| found.span.start_time_unix_nano);
        phases.into_iter().map(|found| found.span.name.as_str()).collect()
    }

    fn writes(&self) -> impl Iterator<Item = &Arrived> {
        self.spans.iter().filter(|found| is_write(found))
    }
}

fn is_write(found: &Arrived) -> bool {
    found.attribute("k8s.verb").is_some()
}

fn is_error(found: &Arrived) -> bool {
    found.span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

/// Returns the write that a span describes. Checks that the span's name and status agree with its attributes.
fn told(found: &Arrived) -> Write {
    let attribute = |key: &str| found.attribute(key).unwrap_or_default();
    let name = format!("{} {}", attribute("k8s.verb"), attribute("k8s.resource"));
    assert_eq!(found.span.name, name);
    let code = attribute("http.response.status_code").parse().unwrap();
    assert_eq!(is_error(found), code >= 400, "{found:#?}");
    (name, code)
}

/// Returns the traces, one for each reconcile, in the order of their start.
fn passes(arrived: &[Arrived]) -> Vec<Trace> {
    let mut traces = BTreeMap::<Vec<u8>, (Vec<Arrived>, Vec<Arrived>)>::new();
    for found in arrived {
        let (roots, spans) = traces.entry(found.span.trace_id.clone()).or_default();
        if found.span.parent_span_id.is_empty() { roots } else { spans }.push(found.clone());
    }
    let mut passes: Vec<Trace> = traces
        .into_values()
        .map(|(roots, spans)| {
            let [root] = <[Arrived; 1]>::try_from(roots).expect("a trace has one root");
            Trace { root, spans }
        })
        .filter(|trace| trace.root.attribute("namespace").as_deref() == Some(NAMESPACE))
        .collect();
    passes.sort_by_key(|trace| trace.root.span.start_time_unix_nano);
    passes
}

/// Returns the controller's answered writes in or for the namespace, from the audit log. Leaves out Events, which are written
/// in the background.
fn heard(server: &Server) -> Vec<Write> {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap_or_default();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut writes: Vec<Write> = events
        .filter(|event| {
            let (object, verb) = (&event["objectRef"], event["verb"].as_str().unwrap_or_default());
            ["create", "update", "patch", "delete"].contains(&verb)
                && (object["namespace"] == NAMESPACE || object["resource"] == "clusterrolebindings")
                && object["resource"] != "events"
        })
        .map(|event| {
            let part = |name: &str| event["objectRef"][name].as_str().map(str::to_owned);
            let below = part("subresource").map(|below| format!("/{below}")).unwrap_or_default();
            let verb = event["verb"].as_str().unwrap();
            let name = format!("{verb} {}{below}", part("resource").unwrap());
            (name, event["responseStatus"]["code"].as_u64().unwrap())
        })
        .collect();
    writes.sort();
    writes
}

/// Makes the server refuse Deployments of this name.
fn refuse_deployment(server: &Server, name: &str) {
    let expression = format!("object.metadata.name != '{name}'");
    refuse(server, "CREATE", ("apps", &["deployments"]), &expression, REFUSAL);
    let container = json!({"name": "main", "image": "none"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
        },
    });
    until("the policy is in force", || {
        let answer = server.api.post(&format!("{DEPLOYMENTS}?dryRun=All"), &deployment);
        answer.status == 422
    });
}

/// Returns a replica's number of ended spans by their outcome.
fn counted(replica: &Replica) -> BTreeMap<String, u64> {
    let page = text_of(&format!("http://127.0.0.1:{}/metrics", replica.metrics)).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("longboat_trace_spans_total"));
    lines
        .map(|line| {
            let (labels, count) = line.rsplit_once(' ').unwrap();
            (labels.to_owned(), count.parse().unwrap())
        })
        .collect()
}

#[test]
fn a_pass_arrives_as_one_trace_with_its_phases_and_writes_and_nothing_does_without_an_address() {
    let Some(server) = prepared() else { return };
    install(&server);
    server.api.make_namespace(NAMESPACE);
    let kubeconfig = credentials(&server, "controller");
    let collector = block(Collector::start());
    let flags = ["--leader-elect", "--metrics-secure=false"];

    // Without a collector's address, nothing is exported.
    let mut silent = Replica::start(&kubeconfig, &flags);
    silent.ready();
    make_service(&server, NAMESPACE, "before");
    served(&server, NAMESPACE, "before");
    let counts = counted(&silent);
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert!(counts.values().all(|count| *count == 0), "{counts:?}");
    assert!(silent.end("-TERM").success());
    assert!(collector.arrived().is_empty());
    let before = heard(&server);

    refuse_deployment(&server, "refused-kserve");
    let endpoint = format!("--otlp-endpoint={}", collector.url);
    let mut replica = Replica::start(&kubeconfig, &[&flags[..], &[&endpoint]].concat());
    replica.ready();
    make_service(&server, NAMESPACE, "llm");
    served(&server, NAMESPACE, "llm");
    make_service(&server, NAMESPACE, "refused");
    let refused = ("create deployments".to_owned(), 422);
    until("a write is refused", || heard(&server).contains(&refused));
    // The remaining spans are exported when the replica ends.
    assert!(replica.end("-TERM").success());

    let arrived = collector.arrived();
    assert!(arrived.iter().all(|found| found.service == "longboat-controller"));
    let passes = passes(&arrived);
    for pass in &passes {
        assert_eq!(pass.root.span.name, "reconcile");
        assert_eq!(pass.root.attribute("controller").as_deref(), Some("llminferenceservice"));
    }
    let first = |name: &str| {
        let mut all = passes.iter().filter(|pass| pass.root.attribute("name").as_deref() == Some(name));
        all.next().unwrap()
    };

    let pass = first("llm");
    assert!(!is_error(&pass.root), "{:#?}", pass.root);
    assert_eq!(pass.phases(), ["observe", "compose", "plan", "apply", "report"]);
    let below = |name: &str| {
        let phase = pass.below(&pass.root).find(|found| found.span.name == name).unwrap();
        pass.below(phase).map(told).collect::<Vec<_>>()
    };
    let finalizer = pass.below(&pass.root).filter(|found| is_write(found)).map(told);
    assert_eq!(finalizer.collect::<Vec<_>>(), [("patch llminferenceservices".to_owned(), 200)]);
    let applied = below("apply");
    for written in ["create deployments", "create services", "create httproutes", "create inferencepools"] {
        assert!(applied.contains(&(written.to_owned(), 201)), "{written}: {applied:#?}");
    }
    assert_eq!(below("report"), [("patch llminferenceservices/status".to_owned(), 200)]);
    assert_eq!(pass.writes().count(), 1 + applied.len() + 1, "{:#?}", pass.spans);

    let pass = first("refused");
    let failed: Vec<&Arrived> = pass.writes().filter(|found| is_error(found)).collect();
    assert!(!failed.is_empty() && failed.iter().all(|found| told(found) == refused), "{failed:#?}");
    assert!(is_error(&pass.root), "{:#?}", pass.root);
    let status = pass.root.span.status.as_ref().unwrap();
    assert!(status.message.contains(REFUSAL), "{status:?}");

    // The spans describe exactly the writes of the audit log.
    let mut all: Vec<Write> = passes.iter().flat_map(Trace::writes).map(told).chain(before).collect();
    all.sort();
    assert_eq!(all, heard(&server));
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
