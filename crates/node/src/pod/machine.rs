//! Decides which containers of a pod to start and to stop: a pure function of the states of the containers.
//!
//! Kubernetes: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStateTerminated;
use tokio::time::Instant;

use super::backoff::Backoff;
use crate::options::Timing;

/// The role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An init container that runs to completion before the next containers start.
    Init,
    /// An init container with `restartPolicy: Always`: the next containers only wait for its start.
    Sidecar,
    /// A container of `spec.containers`.
    Main,
}

/// `spec.restartPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// The end of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Termination {
    pub(crate) exit_code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: &'static str,
    pub(crate) message: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Timestamp,
    /// The time from which the restart wait is computed.
    pub(crate) ended: Instant,
}

/// The state of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The container does not run, and starts no earlier than `not_before`.
    Waiting { reason: &'static str, message: Option<String>, not_before: Option<Instant> },
    /// The container runs. `started` is true once its startup probe, if any, has succeeded; `ready` follows its readiness
    /// probe.
    Running { since: Timestamp, started: bool, ready: bool, stopping: bool },
    /// The container has ended.
    Terminated(Termination),
}

impl State {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    fn has_started(&self) -> bool {
        matches!(self, Self::Running { started: true, .. })
    }

    fn waits_until(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Waiting { not_before: Some(due), .. } if *due > now => Some(*due),
            _ => None,
        }
    }
}

/// The state and the history of one container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) role: Role,
    pub(crate) state: State,
    /// The end of the previous instance.
    pub(crate) last: Option<Termination>,
    /// The end of the last instance that an earlier node ran.
    pub(crate) before_node: Option<ContainerStateTerminated>,
    pub(crate) restarts: u32,
    pub(crate) backoff: Backoff,
}

impl Record {
    pub(crate) fn new(role: Role) -> Self {
        let waiting = State::Waiting { reason: "ContainerCreating", message: None, not_before: None };
        Self { role, state: waiting, last: None, before_node: None, restarts: 0, backoff: Backoff::default() }
    }

    /// A container that waits for its restart has ended, if it does not restart any more.
    pub(crate) fn give_up_restart(&mut self) {
        if matches!(self.state, State::Waiting { .. })
            && let Some(end) = self.last.take()
        {
            self.state = State::Terminated(end);
        }
    }

    /// Whether an instance ever ran.
    pub(crate) fn has_run(&self) -> bool {
        self.last.is_some() || !matches!(self.state, State::Waiting { .. })
    }
}

/// The actions to take now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Containers to start, by index, in order.
    pub(crate) start: Vec<usize>,
    /// Ended containers that wait for their restart, with the time of the restart.
    pub(crate) back_off: Vec<(usize, Instant)>,
    /// Containers to stop, by index.
    pub(crate) stop: Vec<usize>,
    /// When to decide again if nothing happens before.
    pub(crate) wake: Option<Instant>,
    /// Whether the pod has ended: nothing runs, and nothing will be started.
    pub(crate) ended: bool,
}

impl Decision {
    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Starts a container whose wait is over, or records when its wait will be over.
    fn start_when_due(&mut self, index: usize, record: &Record, now: Instant, timing: &Timing) {
        match &record.state {
            State::Running { .. } => {}
            State::Terminated(end) => {
                let (due, _) = record.backoff.due(end.ended, timing);
                if due <= now {
                    self.start.push(index);
                } else {
                    self.back_off.push((index, due));
                    self.wake_at(due);
                }
            }
            waiting @ State::Waiting { .. } => match waiting.waits_until(now) {
                Some(due) => self.wake_at(due),
                None => self.start.push(index),
            },
        }
    }
}

/// Decides for a pod that should run, or for a pod that should stop (`stopping`).
pub(crate) fn decide(
    records: &[Record],
    policy: RestartPolicy,
    stopping: bool,
    now: Instant,
    timing: &Timing,
) -> Decision {
    let mut decision = Decision::default();
    let running = |role: Role| records.iter().any(|record| record.role == role && record.state.is_running());
    if stopping || has_ended(records, policy) {
        // Sidecars run until the other containers have ended, then stop in reverse order.
        let others = running(Role::Main) || running(Role::Init);
        if others {
            for (index, record) in records.iter().enumerate() {
                if record.role != Role::Sidecar && record.state.is_running() {
                    decision.stop.push(index);
                }
            }
        } else {
            let last = records.iter().rposition(|record| record.state.is_running());
            decision.stop.extend(last);
        }
        decision.ended = !records.iter().any(|record| record.state.is_running());
        return decision;
    }

    let initialized = records.iter().any(|record| record.role == Role::Main && record.has_run());
    for (index, record) in records.iter().enumerate().filter(|(_, record)| record.role != Role::Main) {
        match record.role {
            Role::Sidecar => {
                decision.start_when_due(index, record, now, timing);
                if !initialized && !record.state.has_started() {
                    return decision;
                }
            }
            Role::Init if initialized => {}
            _ => match &record.state {
                State::Terminated(end) if end.exit_code == 0 => {}
                State::Running { .. } => return decision,
                _ => {
                    decision.start_when_due(index, record, now, timing);
                    return decision;
                }
            },
        }
    }
    for (index, record) in records.iter().enumerate().filter(|(_, record)| record.role == Role::Main) {
        let over = match &record.state {
            State::Terminated(end) => !restarts(policy, end.exit_code),
            _ => false,
        };
        if !over {
            decision.start_when_due(index, record, now, timing);
        }
    }
    decision
}

fn restarts(policy: RestartPolicy, exit_code: i32) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// Whether the pod's work is over: an init container failed for good, or every container ended and none restarts.
pub(crate) fn has_ended(records: &[Record], policy: RestartPolicy) -> bool {
    let failed_init = policy == RestartPolicy::Never
        && records.iter().any(|record| {
            record.role == Role::Init && matches!(&record.state, State::Terminated(end) if end.exit_code != 0)
        });
    let mut mains = records.iter().filter(|record| record.role == Role::Main).peekable();
    let over = mains.peek().is_some()
        && mains.all(
            |record| matches!(&record.state, State::Terminated(end) if !restarts(policy, end.exit_code)),
        );
    failed_init || over
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn waiting(role: Role) -> Record {
        Record::new(role)
    }

    fn running(role: Role, started: bool) -> Record {
        let state = State::Running { since: Timestamp::UNIX_EPOCH, started, ready: started, stopping: false };
        Record { state, ..Record::new(role) }
    }

    fn ended(role: Role, exit_code: i32, ended: Instant) -> Record {
        let end = Termination {
            exit_code,
            signal: None,
            reason: "Error",
            message: None,
            started_at: None,
            finished_at: Timestamp::UNIX_EPOCH,
            ended,
        };
        Record { state: State::Terminated(end), ..Record::new(role) }
    }

    fn decide_now(records: &[Record], policy: RestartPolicy, now: Instant) -> Decision {
        decide(records, policy, false, now, &Timing::default())
    }

    #[test]
    fn init_containers_run_one_after_the_other_before_the_rest() {
        use Role::{Init, Main, Sidecar};
        let now = Instant::now();
        let start = |records: &[Record]| decide_now(records, RestartPolicy::Always, now).start;
        assert_eq!(
            start(&[waiting(Init), waiting(Sidecar), waiting(Init), waiting(Main), waiting(Main)]),
            [0]
        );
        assert_eq!(
            start(&[running(Init, true), waiting(Sidecar), waiting(Init), waiting(Main)]),
            [0_usize; 0]
        );
        assert_eq!(start(&[ended(Init, 0, now), waiting(Sidecar), waiting(Init), waiting(Main)]), [1]);
        assert_eq!(
            start(&[ended(Init, 0, now), running(Sidecar, false), waiting(Init), waiting(Main)]),
            [0_usize; 0]
        );
        assert_eq!(start(&[ended(Init, 0, now), running(Sidecar, true), waiting(Init), waiting(Main)]), [2]);
        assert_eq!(
            start(&[
                ended(Init, 0, now),
                running(Sidecar, true),
                ended(Init, 0, now),
                waiting(Main),
                waiting(Main)
            ]),
            [3, 4]
        );
    }

    #[test]
    fn containers_restart_as_the_policy_says() {
        use Role::{Init, Main, Sidecar};
        let now = Instant::now();
        let decide = |records: &[Record], policy| decide_now(records, policy, now);
        assert_eq!(decide(&[ended(Main, 0, now)], RestartPolicy::Always).start, [0]);
        assert_eq!(decide(&[ended(Main, 1, now)], RestartPolicy::OnFailure).start, [0]);
        assert!(decide(&[ended(Main, 0, now)], RestartPolicy::OnFailure).ended);
        assert!(decide(&[ended(Main, 1, now)], RestartPolicy::Never).ended);
        assert!(decide(&[ended(Init, 1, now), waiting(Main)], RestartPolicy::Never).ended);
        assert_eq!(decide(&[ended(Init, 1, now), waiting(Main)], RestartPolicy::OnFailure).start, [0]);
        assert_eq!(decide(&[ended(Sidecar, 1, now), running(Main, true)], RestartPolicy::Never).start, [0]);
        assert_eq!(
            decide(&[ended(Main, 0, now), running(Main, true)], RestartPolicy::Never),
            Decision::default()
        );
    }

    #[test]
    fn a_second_restart_waits() {
        let now = Instant::now();
        let mut record = ended(Role::Main, 1, now);
        record.backoff.restarted(now, now, &Timing::default());
        let decision = decide_now(std::slice::from_ref(&record), RestartPolicy::Always, now);
        let due = now + Duration::from_secs(10);
        assert_eq!((decision.start, decision.back_off, decision.wake), (vec![], vec![(0, due)], Some(due)));
        assert_eq!(decide_now(&[record], RestartPolicy::Always, due).start, [0]);
    }

    #[test]
    fn sidecars_stop_last_and_in_reverse() {
        use Role::{Main, Sidecar};
        let now = Instant::now();
        let stop = |records: &[Record]| {
            let decision = decide(records, RestartPolicy::Always, true, now, &Timing::default());
            (decision.stop, decision.ended)
        };
        let side = || running(Sidecar, true);
        assert_eq!(stop(&[side(), side(), running(Main, true), running(Main, true)]), (vec![2, 3], false));
        assert_eq!(stop(&[side(), side(), ended(Main, 0, now)]), (vec![1], false));
        assert_eq!(stop(&[side(), ended(Sidecar, 0, now), ended(Main, 0, now)]), (vec![0], false));
        assert_eq!(stop(&[ended(Sidecar, 0, now), ended(Main, 0, now)]), (vec![], true));
        let finished = [side(), ended(Main, 0, now)];
        assert_eq!(decide_now(&finished, RestartPolicy::Never, now).stop, [0]);
    }
}
