//! Probes of a running container: their schedule ([`schedule`]), their execution, and their reports.

mod grpc;
pub(crate) mod http;
mod port;
mod schedule;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::container::host::Host;
use crate::container::launch::Launch;
use crate::container::process;
use crate::options::Timing;
use crate::reaper::Reaper;
pub(crate) use port::port_number;
use schedule::Schedule;

/// The kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Readiness,
    Liveness,
}

impl Kind {
    /// The first word of an event's message.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }

    /// Returns the container's probe of this kind.
    pub(crate) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// The target of a probe.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) container: Arc<Container>,
    pub(crate) pod_ip: String,
    pub(crate) launch: Arc<Launch>,
    pub(crate) host: Arc<Host>,
    pub(crate) reaper: Option<Reaper>,
}

/// The reports of a prober.
#[derive(Debug)]
pub(crate) enum Report {
    /// A probe failed, and the failure counts.
    Failure(String),
    /// A probe succeeded, but its response is suspicious.
    Warning(String),
    /// The container now succeeds, or no longer succeeds.
    Verdict(bool),
}

/// Probes until the task is dropped, or until the result is final: a startup probe has succeeded, or a startup or liveness
/// probe has failed.
pub(crate) async fn run<F>(
    kind: Kind,
    probe: Probe,
    target: Target,
    started: Instant,
    timing: &Timing,
    report: impl Fn(Report) -> F,
) where
    F: Future<Output = ()>,
{
    // A liveness probe can only fail a container, so early probes have no benefit.
    let early = (kind != Kind::Liveness).then_some(timing.early_probe);
    let mut schedule = Schedule::new(&probe, started, early);
    let limit = limit(kind, &probe, timing);
    loop {
        tokio::time::sleep_until(schedule.next()).await;
        let sent = Instant::now();
        let answer = ask(&probe, &target, limit).await;
        let seen = schedule.observe(sent, Instant::now(), answer.is_ok());
        match answer {
            Err(message) if seen.counted => report(Report::Failure(message)).await,
            Ok(Some(message)) => report(Report::Warning(message)).await,
            Err(_) | Ok(None) => {}
        }
        if let Some(verdict) = seen.changed {
            report(Report::Verdict(verdict)).await;
            let settled = match kind {
                Kind::Startup => true,
                Kind::Liveness => !verdict,
                Kind::Readiness => false,
            };
            if settled {
                return;
            }
        }
    }
}

/// Returns the time limit of a probe. A failed liveness probe kills the container, and a busy machine is no reason to do
/// that: a container that refuses connections or answers with an error still fails at once.
fn limit(kind: Kind, probe: &Probe, timing: &Timing) -> Duration {
    let seconds =
        probe.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let limit = Duration::from_secs(seconds.unwrap_or(1));
    if kind == Kind::Liveness { limit.max(timing.liveness_patience) } else { limit }
}

/// Probes once. A successful probe may have a warning.
async fn ask(probe: &Probe, target: &Target, limit: Duration) -> Result<Option<String>, String> {
    if let Some(action) = &probe.http_get {
        http::get(action, &target.container, &target.pod_ip, limit).await
    } else if let Some(action) = &probe.grpc {
        grpc::check(action, &target.pod_ip, limit).await.map(|()| None)
    } else if let Some(action) = &probe.tcp_socket {
        let port = port_number(&action.port, &target.container)?;
        let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(&target.pod_ip);
        match tokio::time::timeout(limit, TcpStream::connect((host, port))).await {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(error)) => Err(http::dial_error(host, port, &error)),
            Err(_) => Err(format!("dial tcp {host}:{port}: i/o timeout")),
        }
    } else if let Some(action) = &probe.exec {
        let command = action.command.clone().unwrap_or_default();
        let launch = target.launch.exec(&target.host, &command).map_err(|error| error.to_string())?;
        match tokio::time::timeout(limit, process::exec(&launch, target.reaper.as_ref())).await {
            Ok(Ok(done)) if done.exit.code == 0 => Ok(None),
            Ok(Ok(done)) => Err(done.output),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                let limit = longboat_quantity::duration::text(limit);
                Err(format!("command timed out: {:?} timed out after {limit}", command.join(" ")))
            }
        }
    } else {
        Err("missing probe handler".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_liveness_probes_get_more_time_than_the_manifest_gives() {
        let timing = Timing { liveness_patience: Duration::from_secs(15), ..Timing::default() };
        let seconds = |kind: Kind, timeout: Option<i32>| {
            let probe = Probe { timeout_seconds: timeout, ..Probe::default() };
            limit(kind, &probe, &timing).as_secs()
        };
        assert_eq!(seconds(Kind::Liveness, None), 15);
        assert_eq!(seconds(Kind::Liveness, Some(1)), 15);
        assert_eq!(seconds(Kind::Liveness, Some(60)), 60);
        assert_eq!(seconds(Kind::Readiness, None), 1);
        assert_eq!(seconds(Kind::Startup, Some(5)), 5);
    }
}
