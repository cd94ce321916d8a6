//! Replays the recordings of the reference's downloader: the same servers with the same faults and the same command. Compares
//! the exit code, the files and the kinds of requests. If the reference is wrong, `differences.txt` contains the right result.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

mod case;
mod judge;
#[path = "../servers/mod.rs"]
mod servers;

use std::{collections::BTreeSet, sync::Arc};

use futures::{StreamExt, stream};
use longboat_fetch::{Args, Settings, run_with};
use longboat_golden::{Entry, compatibility};

use crate::{case::Case, judge::Files};

/// The right results where the reference is wrong: `case | fails, with this text, or serves, with these files | id`, of
/// `compatibility.yaml`.
const DIFFERENCES: &str = include_str!("differences.txt");

struct Difference {
    fails: bool,
    what: String,
}

fn difference(case: &str) -> Option<Difference> {
    let lines = DIFFERENCES.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    for line in lines {
        let parts: Vec<&str> = line.splitn(4, " | ").map(str::trim).collect();
        let [name, outcome, what, id] = parts[..] else { panic!("four parts: {line}") };
        if name == case {
            compatibility::deviation(id);
            assert!(["fails", "serves"].contains(&outcome), "{line}");
            return Some(Difference { fails: outcome == "fails", what: what.to_owned() });
        }
    }
    None
}

/// Requests of the reference that the downloader does not need, and one that it sends instead of them
/// (`compatibility.yaml#store-requests`, `compatibility.yaml#complete-folder`).
const MEANT: [&str; 4] = ["s3 HEAD bucket", "s3 HEAD object", "gcs GET object", "hub HEAD file"];

fn recordings() -> Vec<Entry> {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let mut files = longboat_golden::part("fetch").entries();
    files.retain(|file| file.has_extension("yaml") && (wanted.is_empty() || file.stem() == wanted));
    files
}

/// Cases that this test cannot set up.
const LEFT_OUT: [(&str, &str); 5] = [
    ("hf-disk-full", "needs a small volume: `tests/faults`"),
    ("oci-disk-full", "needs a small volume: `tests/faults`"),
    ("hf-read-only", "needs another user: `tests/faults`"),
    ("cli-mnt-models-source", "needs the path /mnt/models: a unit test"),
    ("http-encoding-gzip", "the header is not in the recording: `tests/faults`"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_recording_is_equal_or_better() {
    longboat_tls::install_default_provider();
    let recordings = recordings();
    let all = recordings.len();
    let outcomes: Vec<(String, Vec<String>)> = stream::iter(recordings)
        .map(|file| async move {
            let name = file.stem().to_owned();
            if let Some((_, why)) = LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
                println!("left out {name}: {why}");
                return (name, vec![]);
            }
            let task = tokio::spawn(async move {
                let case = Arc::new(Case::start(&file).await);
                replay(&case).await
            });
            let problems = match task.await {
                Ok(problems) => problems,
                Err(panic) => vec![format!("panic: {panic}")],
            };
            (name, problems)
        })
        .buffer_unordered(6)
        .collect()
        .await;
    let mut wrong = 0;
    for (name, problems) in &outcomes {
        wrong += usize::from(!problems.is_empty());
        for problem in problems {
            println!("DIFFERENT {name}: {problem}");
        }
    }
    println!("{all} recordings, {wrong} different, {} left out", LEFT_OUT.len());
    assert_eq!(wrong, 0);
}

/// Replays a recording. Returns the differences.
async fn replay(case: &Case) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(before) = case.text["before"].as_str() {
        case.shell(before);
    }
    let compare = case.text["compare"].as_str().unwrap();
    let runs = case.runs();
    let difference = difference(&case.name);
    for (number, run) in runs.iter().enumerate() {
        if number > 0 {
            between(case);
        }
        let before = judge::found(case.root.path());
        case.servers.log.lock().clear();
        let settings = Settings::new(case.environment(number));
        let args = Args { pairs: case.arguments(), mode: None };
        let fetch = async {
            let settings = settings?;
            run_with(args, &settings, None).await
        };
        let killed = run["exit"].as_str().is_some_and(|exit| exit.starts_with("killed"));
        let result = if killed {
            // Dropping the future has the same effect on the disk as a kill. The tests in `tests/faults` kill real processes.
            tokio::select! { result = fetch => result, () = half(case) => continue }
        } else {
            fetch.await
        };
        let message = result.as_ref().err().map(ToString::to_string);
        let secrets = ["uriSECRET", "FAKETOKEN", "s3cr3tFAKE", "SIGNED"];
        if message.as_ref().is_some_and(|text| secrets.iter().any(|secret| text.contains(secret))) {
            problems.push(format!("a secret is in the message: {message:?}"));
        }
        let (found, expected) = (judge::found(case.root.path()), judge::recorded(run));
        problems.extend(escaped(&before, &found));
        let recorded_failure = run["exit"].as_i64() == Some(1);
        let is_last = number + 1 == runs.len();
        match (&difference, compare) {
            (Some(difference), _) if is_last => {
                problems.extend(as_listed(case, difference, message.as_deref(), &before, &found));
            }
            (None, "differ") => problems.push("it differs, and differences.txt does not say how".into()),
            _ => {
                problems.extend(judge::other_words(case, run, message.as_deref()));
                if compare != "differ" && recorded_failure != message.is_some() {
                    problems.push(format!("run {number}: the exit is another one: {message:?}"));
                }
                if compare == "error-kind" || (compare == "differ" && recorded_failure) {
                    problems.extend(appeared(&before, &found, &expected));
                } else if compare != "differ" {
                    problems.extend(unequal(&expected, &found));
                }
                if compare == "same" && !recorded_failure {
                    problems.extend(other_requests(case, run));
                }
            }
        }
    }
    problems
}

/// Waits until half of the bytes were sent.
async fn half(case: &Case) {
    while case.servers.sent.load(std::sync::atomic::Ordering::Relaxed) < 31_457_280 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Lets the hub fail from now on.
fn break_hub(case: &Case) {
    case.servers.faults.lock().push(servers::Fault {
        server: "hub".into(),
        method: None,
        path: None,
        range: None,
        skip: 0,
        times: u64::MAX,
        effect: servers::Effect { status: Some(500), ..servers::Effect::default() },
    });
}

/// Makes the changes between two runs.
fn between(case: &Case) {
    case.servers.faults.lock().clear();
    let steps = case.text["between_runs"].as_array().cloned().unwrap_or_default();
    for step in steps.iter().map(|step| step.as_str().unwrap()) {
        if step.starts_with("main moves") {
            let mut repositories = case.hub.repositories.lock();
            let repository = repositories.get_mut("org/m").unwrap();
            let mut files = repository.commits[&repository.refs["main"]].clone();
            files.retain(|file| file.path != "README.md");
            for file in &mut files {
                if file.path == "config.json" {
                    file.content = Arc::new(b"{\"a\":2}\n".to_vec());
                }
            }
            files.push(servers::hub::File {
                path: "new.txt".into(),
                content: Arc::new(b"n\n".to_vec()),
                lfs: false,
            });
            repository.commits.insert("c".repeat(40), files);
            repository.refs.insert("main".into(), "c".repeat(40));
        } else if step.starts_with("the hub") || step.starts_with("hub ") {
            break_hub(case);
        } else {
            case.shell(step);
        }
    }
    if case.name == "hf-api-500-partial" {
        break_hub(case);
    }
}

/// Returns new files outside of the target.
fn escaped(before: &Files, found: &Files) -> Vec<String> {
    let inside = |path: &str| ["/mnt/models/", "/mnt/lora/"].iter().any(|folder| path.starts_with(folder));
    let new = found.keys().filter(|path| !before.contains_key(*path) && !inside(path));
    new.map(|path| format!("{path} is outside of the target")).collect()
}

/// Returns files that a failed run left incomplete under a final name.
fn appeared(before: &Files, found: &Files, recorded: &Files) -> Vec<String> {
    let new = found.iter().filter(|(path, file)| before.get(*path) != Some(file));
    new.filter(|(path, file)| recorded.get(*path) != Some(file) && file.contains(" 0 "))
        .filter(|(path, _)| !path.ends_with("/empty.txt"))
        .map(|(path, file)| format!("{path} was left behind: {file}"))
        .collect()
}

fn unequal(expected: &Files, found: &Files) -> Vec<String> {
    let paths: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    paths
        .into_iter()
        // The reference skips empty S3 objects.
        .filter(|path| !(path.ends_with("/empty.txt") && expected.get(*path).is_none()))
        .filter(|path| expected.get(*path) != found.get(*path))
        .map(|path| format!("{path}: recorded {:?}, ours {:?}", expected.get(path), found.get(path)))
        .collect()
}

fn other_requests(case: &Case, run: &serde_json::Value) -> Vec<String> {
    let ours = judge::kinds_sent(&case.servers.log.lock());
    let theirs = judge::kinds_recorded(run);
    let is_meant = |kind: &&String| MEANT.contains(&kind.as_str());
    // A second run may send fewer requests.
    let again = run["run"].as_i64() == Some(2);
    let missing = theirs.difference(&ours).filter(|kind| !is_meant(kind) && !again);
    let more = ours.difference(&theirs).filter(|kind| !is_meant(kind));
    missing
        .map(|kind| format!("no request `{kind}`"))
        .chain(more.map(|kind| format!("a request `{kind}` more")))
        .collect()
}

fn as_listed(
    case: &Case,
    difference: &Difference,
    message: Option<&str>,
    before: &Files,
    found: &Files,
) -> Vec<String> {
    if difference.fails {
        let Some(message) = message else {
            return vec![format!("it succeeded; expected: {}", difference.what)];
        };
        let mut problems = appeared(before, found, &Files::new());
        if !message.contains(&difference.what) {
            problems.push(format!("it failed with: {message}"));
        }
        return problems;
    }
    if let Some(message) = message {
        return vec![format!("it failed: {message}")];
    }
    let expected: BTreeSet<&str> = difference.what.split(' ').collect();
    let files: BTreeSet<&str> = found.keys().filter_map(|path| path.strip_prefix("/mnt/models/")).collect();
    let mut problems = Vec::new();
    if files != expected {
        problems.push(format!("expected {expected:?}, found {files:?}"));
    }
    let served = case.served();
    for path in files {
        let text = &found[&format!("/mnt/models/{path}")];
        if let Some(sum) = served.get(path)
            && !text.ends_with(sum)
            && !case.name.contains("moved")
        {
            problems.push(format!("{path} has another content"));
        }
    }
    problems
}
