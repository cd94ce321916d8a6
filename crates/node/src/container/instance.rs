//! One run of a container: from the started process to its end.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lifecycle;
use super::log::LogWriter;
use super::process::{Exit, Process};
use crate::probe::Target;

/// A process gets this long after its preStop hook even when the grace period is over, as the kubelet gives it.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// How long a killed process may take to be gone. One that hangs in the kernel cannot be waited for.
const GONE_AFTER_KILL: Duration = Duration::from_secs(5);

/// A request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// When to kill what has not ended by itself.
    pub(crate) deadline: Instant,
    /// Whether the preStop hook runs first.
    pub(crate) pre_stop: bool,
}

/// What happens to an instance.
#[derive(Debug)]
pub(crate) enum InstanceEvent {
    /// The postStart hook, if there is one, is done.
    PostStarted,
    /// A hook failed.
    HookFailed { hook: &'static str, message: String },
    /// The process has ended.
    Ended(Exit),
}

/// Follows `process` to its end, which `stop` may ask for.
pub(crate) async fn run<F>(
    mut process: Process,
    log: LogWriter,
    target: Target,
    grace: Duration,
    mut stop: watch::Receiver<Option<Stop>>,
    report: impl Fn(InstanceEvent) -> F,
) where
    F: Future<Output = ()>,
{
    let hooks = target.container.lifecycle.clone().unwrap_or_default();
    let mut ended = None;
    let mut failed = false;
    if let Some(handler) = &hooks.post_start {
        let hook = lifecycle::run(handler, &target);
        tokio::select! {
            done = hook => if let Err(message) = done {
                failed = true;
                report(InstanceEvent::HookFailed { hook: "PostStart", message }).await;
            },
            exit = wait(&mut process) => ended = Some(exit),
            _ = asked(&mut stop) => {}
        }
    }
    if ended.is_none() && !failed {
        report(InstanceEvent::PostStarted).await;
    }
    let exit = match ended {
        Some(exit) => exit,
        None if failed => {
            let request = Stop { deadline: Instant::now() + grace, pre_stop: false };
            end(&mut process, &mut stop, request).await
        }
        None => tokio::select! {
            exit = wait(&mut process) => exit,
            request = asked(&mut stop) => {
                let mut request = request;
                let mut early = None;
                if let Some(handler) = hooks.pre_stop.as_ref().filter(|_| request.pre_stop) {
                    tokio::select! {
                        done = lifecycle::run(handler, &target) => if let Err(message) = done {
                            report(InstanceEvent::HookFailed { hook: "PreStop", message }).await;
                        },
                        exit = wait(&mut process) => early = Some(exit),
                        () = over(&mut stop) => {}
                    }
                    request = stop.borrow().unwrap_or(request);
                    if request.pre_stop {
                        request.deadline = request.deadline.max(Instant::now() + LEAST_GRACE);
                    }
                }
                match early {
                    Some(exit) => exit,
                    None => end(&mut process, &mut stop, request).await,
                }
            }
        },
    };
    process.finish().await;
    log.close();
    report(InstanceEvent::Ended(exit)).await;
}

async fn wait(process: &mut Process) -> Exit {
    process.wait().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot wait for a container's process");
        Exit { code: 128, signal: None }
    })
}

/// The first request to stop.
async fn asked(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|request| *request) {
        Ok(Some(request)) => request,
        // The worker is gone, so nobody can ask for the stop any more: stop now.
        _ => Stop { deadline: Instant::now(), pre_stop: false },
    }
}

/// The deadline of the current request has passed, or the hook is no longer wanted.
async fn over(stop: &mut watch::Receiver<Option<Stop>>) {
    loop {
        let current = *stop.borrow_and_update();
        let Some(request) = current.filter(|request| request.pre_stop) else { return };
        tokio::select! {
            () = tokio::time::sleep_until(request.deadline) => return,
            changed = stop.changed() => if changed.is_err() { return },
        }
    }
}

/// SIGTERM, then SIGKILL at the deadline, which may be brought forward meanwhile.
async fn end(process: &mut Process, stop: &mut watch::Receiver<Option<Stop>>, request: Stop) -> Exit {
    let group = process.group();
    group.signal(Signal::TERM);
    let mut deadline = request.deadline;
    let mut open = true;
    loop {
        tokio::select! {
            exit = wait(process) => return exit,
            () = tokio::time::sleep_until(deadline) => break,
            changed = stop.changed(), if open => match changed {
                Ok(()) => if let Some(newer) = *stop.borrow_and_update() {
                    deadline = deadline.min(newer.deadline);
                },
                Err(_) => open = false,
            },
        }
    }
    group.signal(Signal::KILL);
    tokio::time::timeout(GONE_AFTER_KILL, wait(process)).await.unwrap_or(Exit { code: 137, signal: Some(9) })
}
