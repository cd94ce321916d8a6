//! The controller's requests to the API server, from the audit log.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::cluster::Cluster;

/// A cluster without requests for this long counts as settled.
pub(crate) const REST: Duration = Duration::from_secs(3);

/// Verbs that may change something.
const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];

/// The audit log, which has a line for each request of the controller.
pub(crate) struct Log {
    path: PathBuf,
}

/// Requests by verb and resource.
#[derive(Debug, Default)]
pub(crate) struct Counted(BTreeMap<(String, String), usize>);

impl Log {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { path: cluster.server.folder.join("audit.log") }
    }

    /// The current end of the log.
    pub(crate) fn mark(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Waits until there is no request for [`REST`].
    pub(crate) fn rest(&self) {
        loop {
            let before = self.mark();
            thread::sleep(REST);
            if self.since(before).0.is_empty() {
                return;
            }
        }
    }

    /// Counts the requests after `mark`.
    pub(crate) fn since(&self, mark: u64) -> Counted {
        let mut counted = Counted::default();
        for event in self.events(mark) {
            let dry = if part(&event["requestURI"]).contains("dryRun=All") { " (dry run)" } else { "" };
            let below = event["objectRef"]["subresource"].as_str().map(|below| format!("/{below}"));
            let resource = part(&event["objectRef"]["resource"]) + &below.unwrap_or_default() + dry;
            *counted.0.entry((part(&event["verb"]), resource)).or_default() += 1;
        }
        counted
    }

    /// Returns the writes after `mark` with their verbs, and with the status codes of failed ones. Leaves dry runs out.
    pub(crate) fn written(&self, mark: u64) -> Vec<String> {
        let all = self.events(mark).into_iter().filter(|event| {
            WRITES.iter().any(|verb| event["verb"] == *verb)
                && !part(&event["requestURI"]).contains("dryRun=All")
        });
        all.map(|event| {
            let refused = event["responseStatus"]["code"].as_u64().filter(|code| *code >= 400);
            let refused = refused.map(|code| format!(" ({code})")).unwrap_or_default();
            format!("{} {}{refused}", part(&event["verb"]), part(&event["requestURI"]))
        })
        .collect()
    }

    /// Returns the audit events after `mark`.
    pub(crate) fn events(&self, mark: u64) -> Vec<Value> {
        let mut file = fs::File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(mark)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // Leaves out a watch's start, because its end is logged too, and the renewal of the lease, which never stops.
        let news =
            |event: &Value| event["stage"] != "ResponseStarted" && event["objectRef"]["resource"] != "leases";
        all.filter(news).collect()
    }
}

fn part(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Counted {
    fn all(&self, is_wanted: impl Fn(&str) -> bool) -> usize {
        self.0.iter().filter(|((verb, _), _)| is_wanted(verb)).map(|(_, count)| count).sum()
    }

    /// Counts creations, changes and deletions, including those of Events.
    pub(crate) fn writes(&self) -> usize {
        self.all(|verb| WRITES.contains(&verb))
    }

    /// Counts gets and lists.
    pub(crate) fn reads(&self) -> usize {
        self.all(|verb| ["get", "list"].contains(&verb))
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> =
            self.0.iter().map(|((verb, resource), count)| format!("{verb} {resource} {count}")).collect();
        formatter.write_str(&all.join(", "))
    }
}
