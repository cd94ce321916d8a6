//! The server's own HTTP/2, judged by h2spec over a loopback socket.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop, and says where it is")]

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    task::Context,
};

use longboat_extproc::{
    Action, HeaderChanges, Incoming, Outbox, Processor, ProcessorExchange, ServerOptions, serve,
};
use quick_xml::{Reader, XmlVersion, events::Event};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// The cases of the pinned version, with those for what the standard only recommends.
const CASES: usize = 146;

/// A processor that answers before it is asked, because h2spec sends no messages. A call with a closed window stays open.
struct Eager;

struct Answer {
    is_due: bool,
}

impl Processor for Eager {
    type Exchange = Answer;

    fn open(&self) -> Answer {
        Answer { is_due: true }
    }
}

impl ProcessorExchange for Answer {
    fn handle(&mut self, _: Incoming, _: &mut Outbox) {}

    fn waits(&self) -> bool {
        self.is_due
    }

    fn poll(&mut self, _: &mut Context<'_>, out: &mut Outbox) {
        self.is_due = false;
        out.push(Action::RequestHeaders(HeaderChanges {
            clear_route_cache: true,
            ..HeaderChanges::default()
        }));
    }
}

fn tool() -> Option<PathBuf> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/bin/h2spec");
    if !tool.is_file() {
        longboat_golden::skipped("no h2spec: scripts/tools.sh fetches it");
        return None;
    }
    Some(tool)
}

/// Runs all cases of the sections `generic`, `http2` and `hpack`, and returns the report in JUnit's format.
fn judge(tool: &Path, server: SocketAddr) -> String {
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join("h2spec.xml");
    let _ = fs::remove_file(&report);
    let output = Command::new(tool)
        .args([
            "--host",
            "127.0.0.1",
            "--port",
            &server.port().to_string(),
            "--path",
            PATH,
            "--strict",
            "--junit-report",
        ])
        .arg(&report)
        .output()
        .unwrap();
    assert!(report.is_file(), "no report: {}", String::from_utf8_lossy(&output.stdout));
    fs::read_to_string(&report).unwrap()
}

/// The cases of a report: section and title, and the outcome of a case that did not pass, which is `skipped` or `error`.
fn cases(report: &str) -> BTreeMap<(String, String), Option<String>> {
    let mut cases = BTreeMap::new();
    let mut current = None;
    let mut reader = Reader::from_str(report);
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => return cases,
            Event::Start(element) if element.name().as_ref() == "testcase" => {
                let attribute = |name: &str| {
                    let value = element.try_get_attribute(name).unwrap().unwrap();
                    value.normalized_value(XmlVersion::Explicit1_0).unwrap().into_owned()
                };
                let case = (attribute("package"), attribute("classname"));
                cases.insert(case.clone(), None);
                current = Some(case);
            }
            Event::Start(element) if element.name().as_ref() != "testsuite" => {
                if let Some(case) = &current {
                    let outcome = element.name().as_ref().to_owned();
                    cases.insert(case.clone(), Some(outcome));
                }
            }
            Event::End(element) if element.name().as_ref() == "testcase" => current = None,
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h2spec_passes_every_case() {
    let Some(tool) = tool() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, Arc::new(Eager), ServerOptions::default(), shutdown.clone()));
    let report = tokio::task::spawn_blocking(move || judge(&tool, address)).await.unwrap();
    shutdown.cancel();
    serving.await.unwrap().unwrap();

    let cases = cases(&report);
    let not_passed: Vec<_> = cases.iter().filter(|(_, outcome)| outcome.is_some()).collect();
    assert!(not_passed.is_empty(), "{not_passed:#?}");
    assert_eq!(cases.len(), CASES);
}
