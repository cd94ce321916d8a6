//! One instance of a container, from the start of its process to its end.

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lifecycle;
use super::log::LogWriter;
use super::process::{Exit, Process};
use crate::probe::Target;

/// The least time that a process gets to end after its preStop hook, even if the grace period is over, as in the kubelet.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// How long to wait for the end of a killed process. A process that hangs in the kernel may never end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A request to end the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// When to kill the process if it has not ended.
    pub(crate) deadline: Instant,
    /// Whether the preStop hook runs first.
    pub(crate) pre_stop: bool,
}

/// An event in the life of an instance.
#[derive(Debug)]
pub(crate) enum InstanceEvent {
    /// The postStart hook has finished, or there is none.
    PostStarted,
    /// A hook failed.
    HookFailed { hook: &'static str, message: String },
    /// The process has ended.
    Ended(Exit),
}

/// Runs until `process` ends. A request in `stop` makes the process end.
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
            _ = stop_request(&mut stop) => {}
        }
    }
    if ended.is_none() && !failed {
        report(InstanceEvent::PostStarted).await;
    }
    let request = match ended {
        Some(exit) => Err(exit),
        // As in the kubelet, the preStop hook also runs after a postStart hook that failed.
        None if failed => Ok(Stop { deadline: Instant::now() + grace, pre_stop: true }),
        None => tokio::select! {
            exit = wait(&mut process) => Err(exit),
            request = stop_request(&mut stop) => Ok(request),
        },
    };
    let exit = match request {
        Ok(request) => {
            let (hooked, request) = match hooks.pre_stop.as_ref().filter(|_| request.pre_stop) {
                Some(handler) => pre_stop(handler, &target, &mut process, &mut stop, request, &report).await,
                None => (None, request),
            };
            match hooked {
                Some(exit) => exit,
                None => end(&mut process, &mut stop, request).await,
            }
        }
        Err(exit) => exit,
    };
    // In this order: who hears of the end finds the whole log.
    process.finish().await;
    log.close();
    report(InstanceEvent::Ended(exit)).await;
}

async fn wait(process: &mut Process) -> Exit {
    process.wait().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "Cannot wait for the process of a container.");
        Exit { code: 128, signal: None }
    })
}

/// Waits for the first stop request.
async fn stop_request(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|request| *request) {
        Ok(Some(request)) => request,
        // The worker is gone and will send no stop request, so stop now.
        _ => Stop { deadline: Instant::now(), pre_stop: false },
    }
}

/// Runs the preStop hook. Returns how the process has ended, if it has, and the request that holds now.
async fn pre_stop<F>(
    handler: &LifecycleHandler,
    target: &Target,
    process: &mut Process,
    stop: &mut watch::Receiver<Option<Stop>>,
    request: Stop,
    report: &impl Fn(InstanceEvent) -> F,
) -> (Option<Exit>, Stop)
where
    F: Future<Output = ()>,
{
    let mut ended = None;
    tokio::select! {
        done = lifecycle::run(handler, target) => if let Err(message) = done {
            report(InstanceEvent::HookFailed { hook: "PreStop", message }).await;
        },
        exit = wait(process) => ended = Some(exit),
        () = over(stop, request) => {}
    }
    let mut request = stop.borrow().unwrap_or(request);
    if request.pre_stop {
        request.deadline = request.deadline.max(Instant::now() + MIN_GRACE);
    }
    (ended, request)
}

/// Waits until the deadline of the current request has passed, or until the request no longer wants the hook. Without a request
/// from the worker, `own` is the current one.
async fn over(stop: &mut watch::Receiver<Option<Stop>>, own: Stop) {
    loop {
        let request = stop.borrow_and_update().unwrap_or(own);
        if !request.pre_stop {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(request.deadline) => return,
            changed = stop.changed() => if changed.is_err() { return },
        }
    }
}

/// Sends SIGTERM to the first process, and SIGKILL to all at the deadline. A later request may move the deadline forward.
async fn end(process: &mut Process, stop: &mut watch::Receiver<Option<Stop>>, request: Stop) -> Exit {
    let group = process.group();
    group.terminate();
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
    group.kill();
    tokio::time::timeout(KILL_TIMEOUT, wait(process)).await.unwrap_or(Exit { code: 137, signal: Some(9) })
}
