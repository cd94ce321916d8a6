//! Handles the reports of a pod's tasks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jiff::Timestamp;
use tokio::time::{Duration, Instant};

use super::machine::{State, Termination};
use super::worker::{Message, Worker};
use crate::container::instance::{InstanceEvent, Stop};
use crate::container::process::Exit;
use crate::events::Severity;
use crate::probe::{self, Kind, Report};

/// The most bytes of a termination message that a container writes to its file.
const WRITTEN_MESSAGE_LIMIT: u64 = 4096;

impl Worker {
    /// Handles a report of one of the pod's tasks.
    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Instance { index, number, event } if self.is_current(index, number) => match event {
                InstanceEvent::PostStarted => self.post_started(index),
                InstanceEvent::HookFailed { hook, message } => {
                    let reason = if hook == "PreStop" { "FailedPreStopHook" } else { "FailedPostStartHook" };
                    self.say(index, Severity::Warning, reason, format!("{hook}Hook failed: {message}"));
                }
                InstanceEvent::Ended(exit) => self.ended(index, exit),
            },
            Message::Probe { index, number, kind, report } if self.is_current(index, number) => {
                self.probed(index, kind, report);
            }
            Message::Instance { .. } | Message::Probe { .. } => {}
        }
    }

    fn is_current(&self, index: usize, number: u32) -> bool {
        self.running[index].as_ref().is_some_and(|running| running.number == number)
    }

    /// Called when the process runs and its postStart hook is done. A container without a startup probe has then started.
    fn post_started(&mut self, index: usize) {
        if self.members[index].container.startup_probe.is_some() {
            self.spawn_prober(index, Kind::Startup);
        } else {
            self.started(index);
        }
    }

    fn started(&mut self, index: usize) {
        let has_readiness = self.members[index].container.readiness_probe.is_some();
        if let State::Running { started, ready, .. } = &mut self.records[index].state {
            *started = true;
            *ready = !has_readiness;
        }
        // As in a kubelet, a startup probe holds back the other two.
        self.spawn_prober(index, Kind::Readiness);
        self.spawn_prober(index, Kind::Liveness);
    }

    fn spawn_prober(&mut self, index: usize, kind: Kind) {
        let Some(running) = &mut self.running[index] else { return };
        let Some(probe) = kind.of(&running.target.container).cloned() else { return };
        let (messages, number) = (self.messages.clone(), running.number);
        let report = move |report| {
            let messages = messages.clone();
            async move {
                // Sending fails if the worker is gone, and then this task ends soon, too.
                let _ = messages.send(Message::Probe { index, number, kind, report }).await;
            }
        };
        let (target, started, shared) = (running.target.clone(), running.started, self.shared.clone());
        running.probers.spawn(async move {
            probe::run(kind, probe, target, started, &shared.timing, report).await;
        });
    }

    fn probed(&mut self, index: usize, kind: Kind, report: Report) {
        match (kind, report) {
            (_, Report::Failure(message)) => {
                let message = format!("{} probe failed: {message}", kind.title());
                self.say(index, Severity::Warning, "Unhealthy", message);
            }
            (_, Report::Warning(message)) => {
                let message = format!("{} probe warning: {message}", kind.title());
                self.say(index, Severity::Warning, "ProbeWarning", message);
            }
            (Kind::Startup, Report::Verdict(true)) => self.started(index),
            (Kind::Readiness, Report::Verdict(passes)) => {
                if let State::Running { ready, .. } = &mut self.records[index].state {
                    *ready = passes;
                }
            }
            (Kind::Startup | Kind::Liveness, Report::Verdict(false)) => {
                let own = kind
                    .of(&self.members[index].container)
                    .and_then(|probe| probe.termination_grace_period_seconds);
                let grace = own
                    .and_then(|seconds| u64::try_from(seconds).ok())
                    .map_or_else(|| self.grace(), Duration::from_secs);
                if self.request_stop(index, Stop { deadline: Instant::now() + grace, pre_stop: true }) {
                    let name = &self.members[index].container.name;
                    let probe = kind.title().to_lowercase();
                    let message = format!("Container {name} failed {probe} probe, will be restarted");
                    self.say(index, Severity::Normal, "Killing", message);
                }
            }
            (Kind::Liveness, Report::Verdict(true)) => {}
        }
    }

    fn ended(&mut self, index: usize, exit: Exit) {
        let container = &self.members[index].container;
        let mut message =
            written_message(&self.directory.termination_log(&container.name)).unwrap_or_default();
        let from_logs = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if message.is_empty() && from_logs && exit.code != 0 {
            message = self.logs[index].tail();
        }
        let record = &mut self.records[index];
        let started_at = match &record.state {
            State::Running { since, .. } => Some(*since),
            State::Waiting { .. } | State::Terminated(_) => None,
        };
        record.state = State::Terminated(Termination {
            exit_code: exit.code,
            signal: exit.signal,
            reason: if exit.code == 0 { "Completed" } else { "Error" },
            message: Some(message).filter(|message| !message.is_empty()),
            started_at,
            finished_at: Timestamp::now(),
            ended: Instant::now(),
        });
        if let Some(registered) = &self.registered {
            registered.ended(&self.members[index].container.name);
        }
        self.running[index] = None;
    }
}

/// Returns the beginning of the file for a termination message, which may be of any size.
fn written_message(path: &Path) -> io::Result<String> {
    let mut message = Vec::new();
    File::open(path)?.take(WRITTEN_MESSAGE_LIMIT).read_to_end(&mut message)?;
    Ok(String::from_utf8_lossy(&message).into_owned())
}
