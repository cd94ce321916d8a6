//! Follows services until they are ready, and afterwards.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::anyhow;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use longboat_api::{annotations, conditions::types::GATEWAYS_READY, v1alpha2::LLMInferenceService};
use longboat_doctor::{Finding, to_text};
use longboat_key::Key;
use longboat_offline::Settings;
use parking_lot::Mutex;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use super::{Service, cause, deadline::Deadline, question::Gateway, service};
use crate::{
    printer::{self, Stream},
    tree::{
        Environment, Follow, IDLE_REDRAW_INTERVAL, Line, Mark, REDRAW_INTERVAL, Scope, Screen, TreeObjects,
        conditions::{is_ready, serves},
        group::{self, Group},
        lines, workloads,
    },
};

/// How long a lasting cause must persist before it counts, because some causes only appear for a moment.
const LASTING_CAUSE_DELAY: Duration = Duration::from_secs(2);

/// Services of a local cluster, and the tree that shows them.
pub(crate) struct Watch {
    client: Client,
    /// Their names. An edit of the manifests adds services.
    names: Arc<Mutex<Vec<Key>>>,
    gateway: Gateway,
    /// When this run began.
    begin: Timestamp,
    follow: Follow,
    screen: Screen,
    /// Whether changes are printed where the tree cannot be drawn.
    prints_changes: bool,
    resized: Signal,
}

/// Causes that waiting does not resolve.
struct Verdict {
    findings: Vec<Finding>,
    since: Instant,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn start(
        client: Client,
        names: Arc<Mutex<Vec<Key>>>,
        gateway: Gateway,
        begin: Timestamp,
        prints_changes: bool,
    ) -> anyhow::Result<Self> {
        let follow = Follow::start(&client, &Scope::Everywhere);
        let resized = signal(SignalKind::window_change())?;
        let screen = Screen::new(Stream::Stderr);
        Ok(Self { client, names, gateway, begin, follow, screen, prints_changes, resized })
    }

    /// Shows the tree until every service serves at this cluster's gateway, as far as it can here, or is stopped. Returns the
    /// services that serve and the groups at that moment.
    ///
    /// # Errors
    ///
    /// If `timeout` passes without progress of a download, or at once if waiting cannot help. The error has the causes.
    pub(crate) async fn until_ready(
        &mut self,
        timeout: Duration,
    ) -> anyhow::Result<(Vec<Service>, Vec<Group>)> {
        let mut deadline = Deadline::after(timeout);
        // The doctor runs at most once per tick, however many changes there are.
        let (mut verdict, mut looked): (Option<Verdict>, Option<Instant>) = (None, None);
        loop {
            let seen = self.follow.seen();
            // A copy: an edit of the manifests must not wait for what follows.
            let names = self.names.lock().clone();
            let lines = lines::all(&seen, &names, Environment::Laptop);
            if self.prints_changes || self.screen.is_live {
                self.screen.show(&lines);
            }
            let is_settled = |name: &&Key| self.is_ready(&seen, name) || is_stopped(&seen, name);
            let stuck: Vec<_> = names.iter().filter(|name| !is_settled(name)).cloned().collect();
            if stuck.is_empty() {
                let mut services = Vec::new();
                for key in &names {
                    if let Some(found) = lines::find(&seen, key).filter(|_| !is_stopped(&seen, key)) {
                        services.push(service::find(&self.client, found, Some(&self.gateway)).await?);
                    }
                }
                return Ok((services, group::all(&seen, &names)));
            }
            deadline.observe(&seen);
            if Instant::now() >= deadline.at() {
                let findings = cause::findings(&self.client, &Settings::default(), &stuck).await;
                printer::leave();
                let stuck: Vec<&Key> = stuck.iter().collect();
                return Err(failure(&stuck, &deadline.missed(), &findings, &lines));
            }
            // A Gateway usually becomes ready by itself, so its line is not bad. The doctor knows whether it cannot.
            let waits_for_gateway =
                |key: &Key| lines::find(&seen, key).is_some_and(|service| is_false(service, GATEWAYS_READY));
            let is_bad =
                lines.iter().any(|line| line.mark == Mark::Bad) || stuck.iter().any(waits_for_gateway);
            let is_due = looked.is_none_or(|looked| looked.elapsed() >= REDRAW_INTERVAL);
            verdict = match (is_bad, is_due) {
                (false, _) => None,
                (true, false) => verdict,
                (true, true) => {
                    looked = Some(Instant::now());
                    self.judge(&stuck, verdict).await
                }
            };
            if let Some(verdict) =
                verdict.as_ref().filter(|verdict| verdict.since.elapsed() >= LASTING_CAUSE_DELAY)
            {
                printer::leave();
                return Err(stuck_services_error(&stuck, &verdict.findings, &lines));
            }
            let tick = self.screen.is_live || is_bad;
            let next = if tick { deadline.at().min(Instant::now() + REDRAW_INTERVAL) } else { deadline.at() };
            self.changed_by(next).await;
        }
    }

    /// Runs the doctor to find causes that waiting does not resolve.
    async fn judge(&self, stuck: &[Key], before: Option<Verdict>) -> Option<Verdict> {
        let mut findings = cause::findings(&self.client, &Settings::default(), stuck).await;
        findings.retain(Finding::is_permanent);
        if findings.is_empty() {
            return None;
        }
        let same = |one: &Finding, other: &Finding| one.object == other.object && one.fault == other.fault;
        let stands =
            |before: &Verdict| before.findings.iter().any(|old| findings.iter().any(|new| same(old, new)));
        let since = before.filter(stands).map_or_else(Instant::now, |before| before.since);
        Some(Verdict { findings, since })
    }

    /// Shows the tree above `footer` for ever.
    pub(crate) async fn forever(&mut self, footer: Vec<String>) -> ! {
        self.screen.footer(footer);
        loop {
            let names = self.names.lock().clone();
            let lines = lines::all(&self.follow.seen(), &names, Environment::Laptop);
            self.screen.show(&lines);
            let waits = self.screen.is_live && lines.iter().any(|line| line.mark != Mark::Good);
            self.changed_by(Instant::now() + if waits { REDRAW_INTERVAL } else { IDLE_REDRAW_INTERVAL })
                .await;
        }
    }

    async fn changed_by(&mut self, deadline: Instant) {
        tokio::select! {
            () = self.follow.changed_by(deadline) => {}
            _ = self.resized.recv() => {}
        }
    }

    fn is_ready(&self, seen: &TreeObjects, key: &Key) -> bool {
        let Some(service) = lines::find(seen, key).filter(|service| serves(service)) else { return false };
        // A kept state has the old status until the controller has reconciled it.
        if is_ready(service) && !workloads::serve_since(seen, service, self.begin) {
            return false;
        }
        let url = service.status.as_ref().and_then(|status| status.url.as_deref()).unwrap_or_default();
        !is_of_another_cluster(url, self.gateway.address)
    }
}

/// Whether a service is stopped on purpose.
fn is_stopped(seen: &TreeObjects, key: &Key) -> bool {
    lines::find(seen, key)
        .is_some_and(|service| annotations::is_stopped(service.metadata.annotations.as_ref()))
}

fn is_false(service: &LLMInferenceService, condition: &str) -> bool {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|found| found.type_ == condition && found.is_false())
}

/// Returns the error that waiting for the services with findings is of no use. Others may only have needed more time.
fn stuck_services_error(stuck: &[Key], findings: &[Finding], lines: &[Line]) -> anyhow::Error {
    let has_finding = |key: &&Key| {
        let object = cause::object(key);
        findings.iter().any(|finding| finding.object == object)
    };
    let (hopeless, waiting): (Vec<&Key>, Vec<&Key>) = stuck.iter().partition(has_finding);
    let error = failure(&hopeless, "cannot become ready", findings, lines);
    if waiting.is_empty() {
        return error;
    }
    anyhow!("{error}\nnot ready yet: {}", full_names(&waiting))
}

fn full_names(keys: &[&Key]) -> String {
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Returns the error that these services are not ready, with the findings of the doctor or else the lines of the tree.
fn failure(stuck: &[&Key], what: &str, findings: &[Finding], lines: &[Line]) -> anyhow::Error {
    let reasons = if findings.is_empty() {
        let bad = lines.iter().filter(|line| line.mark != Mark::Good);
        bad.map(|line| format!("  {}: {}", line.subject, line.text)).collect::<Vec<_>>().join("\n")
    } else {
        to_text(findings)
    };
    anyhow!("{} {what}\n{}", full_names(stuck), reasons.trim_end())
}

/// Whether a URL leads to the gateway of an earlier cluster. A kept state has the old status until the controller has
/// reconciled it.
fn is_of_another_cluster(url: &str, gateway: SocketAddr) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.parse::<SocketAddr>().is_ok_and(|address| address.ip() == gateway.ip() && address != gateway)
}

#[cfg(test)]
mod tests {
    use super::is_of_another_cluster;

    #[test]
    fn only_another_port_of_the_gateways_address_is_of_another_cluster() {
        let gateway = "127.0.0.1:8080".parse().unwrap();
        assert!(is_of_another_cluster("http://127.0.0.1:9090/ns/llm", gateway));
        for url in [
            "http://127.0.0.1:8080/ns/llm",
            "http://llm.ns.svc.cluster.local",
            "http://models.example.com/a",
            "",
        ] {
            assert!(!is_of_another_cluster(url, gateway), "{url}");
        }
    }
}
