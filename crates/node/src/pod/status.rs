//! Computes a pod's status from the states of its containers.
//!
//! Kubernetes: pkg/kubelet/kubelet_pods.go getPhase, pkg/kubelet/status/generate.go.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use longboat_download::PROGRESS_CONDITION;

use super::containers::Member;
use super::machine::{Record, RestartPolicy, Role, State, Termination, has_ended};
use crate::registration::HOST_IP;

/// The inputs of the status.
pub(super) struct Input<'a> {
    pub(super) pod: &'a Pod,
    pub(super) members: &'a [Member],
    pub(super) records: &'a [Record],
    pub(super) policy: RestartPolicy,
    /// `None` until the pod has an address.
    pub(super) pod_ip: Option<String>,
    /// Whether the volumes are mounted.
    pub(super) prepared: bool,
    pub(super) started_at: Timestamp,
    /// The progress of the model download, while an init container downloads the model.
    pub(super) progress: Option<&'a str>,
    /// Whether the pod was active for longer than `activeDeadlineSeconds`.
    pub(super) is_expired: bool,
    /// Whether the pod is being deleted.
    pub(super) is_ending: bool,
    /// The previous status, whose times are kept for unchanged conditions.
    pub(super) before: &'a PodStatus,
    pub(super) now: Timestamp,
}

/// The reason and the message of a pod that was active for longer than `activeDeadlineSeconds`.
pub(super) const EXPIRED: &str = "DeadlineExceeded";
pub(super) const EXPIRED_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Computes the whole status.
pub(super) fn compute(input: &Input<'_>) -> PodStatus {
    // As in the kubelet, the phase says so when the last container has ended.
    let is_stopped = !input.records.iter().any(|record| record.state.is_running());
    let is_expired = input.is_expired && is_stopped;
    let is_over = input.is_ending && is_stopped;
    let phase = if is_expired { "Failed" } else { phase(input.records, input.policy, is_over) };
    let text = |text: &str, before: &Option<String>| {
        if is_expired { Some(text.to_owned()) } else { before.clone() }
    };
    let statuses = |main: bool| -> Option<Vec<ContainerStatus>> {
        let list: Vec<_> = input
            .members
            .iter()
            .zip(input.records)
            .filter(|(member, _)| (member.role == Role::Main) == main)
            .map(|(member, record)| container(input, member, record))
            .collect();
        (!list.is_empty()).then_some(list)
    };
    PodStatus {
        observed_generation: input.pod.metadata.generation,
        phase: Some(phase.to_owned()),
        reason: text(EXPIRED, &input.before.reason),
        message: text(EXPIRED_MESSAGE, &input.before.message),
        conditions: Some(conditions(input, phase)),
        container_statuses: statuses(true),
        init_container_statuses: statuses(false),
        pod_ip: input.pod_ip.clone(),
        pod_ips: input.pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        host_ip: Some(HOST_IP.to_owned()),
        host_ips: Some(vec![HostIP { ip: HOST_IP.to_owned() }]),
        start_time: Some(Time(whole_seconds(input.started_at))),
        // Fields of other writers stay as they are, and so does the quality of service: the API server computes it.
        ..input.before.clone()
    }
}

/// Returns the phase. Also a pod that was deleted before all its containers have started ends with a final phase (`is_over`).
fn phase(records: &[Record], policy: RestartPolicy, is_over: bool) -> &'static str {
    let (mut pending, mut running, mut ended, mut failed) = (false, false, false, false);
    for record in records {
        match (&record.state, record.role) {
            (State::Terminated(end), Role::Init) => {
                if end.exit_code != 0 {
                    if policy == RestartPolicy::Never {
                        return "Failed";
                    }
                    pending = true;
                }
            }
            (State::Running { .. } | State::Waiting { .. }, Role::Init) => pending = true,
            (State::Running { started, .. }, Role::Sidecar) => pending |= !started,
            (State::Waiting { .. } | State::Terminated(_), Role::Sidecar) => pending |= record.last.is_none(),
            (State::Running { .. }, Role::Main) => running = true,
            (State::Waiting { .. }, Role::Main) if record.last.is_none() => {
                pending = true;
                failed |= is_over;
            }
            (State::Waiting { .. }, Role::Main) => {
                ended = true;
                failed = true;
            }
            (State::Terminated(end), Role::Main) => {
                ended = true;
                failed |= end.exit_code != 0;
            }
        }
    }
    // Once the pod has ended, its sidecars do not affect the phase.
    if is_over || has_ended(records, policy) {
        return if failed { "Failed" } else { "Succeeded" };
    }
    if !pending && (running || ended) { "Running" } else { "Pending" }
}

fn container(input: &Input<'_>, member: &Member, record: &Record) -> ContainerStatus {
    let uid = input.pod.metadata.uid.as_deref().unwrap_or_default();
    let name = &member.container.name;
    let id = |restarts: u32| format!("longboat://{uid}/{name}/{restarts}");
    // The last instance is the current one until the next one starts.
    let last = record.restarts.saturating_sub(u32::from(!matches!(record.state, State::Waiting { .. })));
    let (state, ready, started) = match &record.state {
        State::Waiting { reason, message, .. } => {
            let behind_init =
                *reason == "ContainerCreating" && input.members.iter().any(|other| other.role != Role::Main);
            let reason = if behind_init { "PodInitializing" } else { reason };
            let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message: message.clone() };
            (ContainerState { waiting: Some(waiting), ..ContainerState::default() }, false, false)
        }
        State::Running { since, started, ready, .. } => {
            let running = ContainerStateRunning { started_at: Some(Time(whole_seconds(*since))) };
            (ContainerState { running: Some(running), ..ContainerState::default() }, *ready, *started)
        }
        State::Terminated(end) => {
            let done = member.role == Role::Init && end.exit_code == 0;
            (terminated(end, id(record.restarts)), done, false)
        }
    };
    ContainerStatus {
        name: name.clone(),
        image: member.container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        container_id: record.has_run().then(|| id(record.restarts)),
        state: Some(state),
        last_state: Some(match &record.last {
            Some(end) => terminated(end, id(last)),
            None => ContainerState { terminated: record.before_node.clone(), ..ContainerState::default() },
        }),
        ready,
        started: Some(started),
        restart_count: i32::try_from(record.restarts).unwrap_or(i32::MAX),
        ..ContainerStatus::default()
    }
}

fn terminated(end: &Termination, id: String) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: end.exit_code,
        signal: end.signal,
        reason: Some(end.reason.to_owned()),
        message: end.message.clone(),
        started_at: end.started_at.map(|at| Time(whole_seconds(at))),
        finished_at: Some(Time(whole_seconds(end.finished_at))),
        container_id: Some(id),
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// Rounds a time down to whole seconds. The API has whole seconds, so compared times must have them, too.
pub(super) fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn conditions(input: &Input<'_>, phase: &str) -> Vec<PodCondition> {
    let unready = |wanted: fn(&Record) -> bool, roles: &[Role]| -> Vec<&str> {
        input
            .members
            .iter()
            .zip(input.records)
            .filter(|(member, record)| roles.contains(&member.role) && !wanted(record))
            .map(|(member, _)| member.container.name.as_str())
            .collect()
    };
    let is_ready = |record: &Record| matches!(record.state, State::Running { ready: true, .. });
    let initialized = |record: &Record| match (&record.state, record.role) {
        (State::Terminated(end), Role::Init) => end.exit_code == 0,
        (State::Running { started, .. }, Role::Sidecar) => *started,
        (_, Role::Sidecar) => record.last.is_some(),
        _ => false,
    };
    let is_over = matches!(phase, "Succeeded" | "Failed");
    let uninitialized = if is_over { Vec::new() } else { unready(initialized, &[Role::Init, Role::Sidecar]) };
    let not_ready = unready(is_ready, &[Role::Main, Role::Sidecar]);

    let containers_ready = match phase {
        "Succeeded" => Verdict::no("PodCompleted", None),
        "Failed" => Verdict::no("PodFailed", None),
        _ if not_ready.is_empty() => Verdict::yes(),
        _ => {
            let message = format!("containers with unready status: [{}]", not_ready.join(" "));
            Verdict::no("ContainersNotReady", Some(message))
        }
    };
    let gates = input.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let closed: Vec<_> = gates.filter(|gate| !holds(input.pod, &gate.condition_type)).collect();
    let ready = if containers_ready.holds && !closed.is_empty() {
        let texts: Vec<_> = closed
            .iter()
            .map(|gate| {
                format!(
                    "corresponding condition of pod readiness gate {:?} does not exist or is not \"True\".",
                    gate.condition_type
                )
            })
            .collect();
        Verdict::no("ReadinessGatesNotReady", Some(texts.join(", ")))
    } else {
        containers_ready.clone()
    };
    let mut list = vec![
        (
            "PodReadyToStartContainers",
            Verdict { holds: input.prepared && !is_over, reason: None, message: None },
        ),
        (
            "Initialized",
            if uninitialized.is_empty() {
                Verdict { reason: (phase == "Succeeded").then_some("PodCompleted"), ..Verdict::yes() }
            } else {
                let message = format!("containers with incomplete status: [{}]", uninitialized.join(" "));
                Verdict::no("ContainersNotInitialized", Some(message))
            },
        ),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Verdict::yes()),
    ]
    .into_iter()
    .map(|(type_, verdict)| verdict.condition(type_, input))
    .collect::<Vec<_>>();
    if let Some(progress) = input.progress {
        let downloading = Verdict::no("Downloading", Some(progress.to_owned()));
        list.push(downloading.condition(PROGRESS_CONDITION, input));
    }
    let foreign = input.pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    for condition in foreign.filter(|condition| condition.type_ != PROGRESS_CONDITION) {
        if !list.iter().any(|own| own.type_ == condition.type_) {
            list.push(condition.clone());
        }
    }
    list
}

fn holds(pod: &Pod, type_: &str) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

#[derive(Debug, Clone)]
struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn yes() -> Self {
        Self { holds: true, reason: None, message: None }
    }

    fn no(reason: &'static str, message: Option<String>) -> Self {
        Self { holds: false, reason: Some(reason), message }
    }

    fn condition(self, type_: &str, input: &Input<'_>) -> PodCondition {
        let status = if self.holds { "True" } else { "False" };
        let before = input.before.conditions.iter().flatten().find(|before| before.type_ == type_);
        let since = before
            .filter(|before| before.status == status)
            .and_then(|before| before.last_transition_time.clone())
            .unwrap_or_else(|| Time(whole_seconds(input.now)));
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: self.reason.map(str::to_owned),
            message: self.message,
            last_transition_time: Some(since),
            observed_generation: input.pod.metadata.generation,
            ..PodCondition::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::containers;

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "main", "image": "i"}]}}))
        .unwrap()
    }

    fn end(exit_code: i32) -> Termination {
        Termination {
            exit_code,
            signal: None,
            reason: if exit_code == 0 { "Completed" } else { "Error" },
            message: None,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::UNIX_EPOCH,
            ended: tokio::time::Instant::now(),
        }
    }

    fn status(init: State, main: Record, policy: RestartPolicy) -> PodStatus {
        let pod = pod();
        let members = containers::of(pod.spec.as_ref().unwrap());
        let records = [Record { state: init, ..Record::new(Role::Init) }, main];
        let input = Input {
            pod: &pod,
            members: &members,
            records: &records,
            policy,
            pod_ip: Some("127.64.0.1".into()),
            prepared: true,
            started_at: Timestamp::UNIX_EPOCH,
            progress: None,
            is_expired: false,
            is_ending: false,
            before: &PodStatus::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        compute(&input)
    }

    fn running(ready: bool) -> Record {
        let state = State::Running { since: Timestamp::UNIX_EPOCH, started: true, ready, stopping: false };
        Record { state, ..Record::new(Role::Main) }
    }

    fn condition<'s>(status: &'s PodStatus, type_: &str) -> &'s PodCondition {
        status.conditions.as_ref().unwrap().iter().find(|condition| condition.type_ == type_).unwrap()
    }

    #[test]
    fn a_pod_is_pending_until_its_init_containers_are_done_and_ready_with_its_containers() {
        let waiting = Record::new(Role::Init).state;
        let first = status(waiting, Record::new(Role::Main), RestartPolicy::Always);
        assert_eq!(first.phase.as_deref(), Some("Pending"));
        let main = &first.container_statuses.as_ref().unwrap()[0];
        assert_eq!(
            main.state.as_ref().unwrap().waiting.as_ref().unwrap().reason.as_deref(),
            Some("PodInitializing")
        );
        assert_eq!(
            condition(&first, "Initialized").message.as_deref(),
            Some("containers with incomplete status: [init]")
        );

        let done = State::Terminated(end(0));
        let second = status(done.clone(), running(false), RestartPolicy::Always);
        assert_eq!(second.phase.as_deref(), Some("Running"));
        assert_eq!(
            condition(&second, "Ready").message.as_deref(),
            Some("containers with unready status: [main]")
        );
        assert_eq!(condition(&status(done, running(true), RestartPolicy::Always), "Ready").status, "True");
    }

    #[test]
    fn a_pod_whose_containers_ended_has_the_phase_its_policy_says() {
        let done = || State::Terminated(end(0));
        let ended = |code| Record { state: State::Terminated(end(code)), ..Record::new(Role::Main) };
        let phase = |record, policy| status(done(), record, policy).phase.unwrap();
        assert_eq!(phase(ended(0), RestartPolicy::Never), "Succeeded");
        assert_eq!(phase(ended(1), RestartPolicy::Never), "Failed");
        assert_eq!(phase(ended(1), RestartPolicy::OnFailure), "Running");
        assert_eq!(phase(ended(0), RestartPolicy::Always), "Running");
        let waiting = State::Waiting { reason: "CrashLoopBackOff", message: None, not_before: None };
        let backing_off =
            Record { state: waiting, last: Some(end(1)), restarts: 1, ..Record::new(Role::Main) };
        assert_eq!(phase(backing_off, RestartPolicy::Always), "Running");
        assert_eq!(
            status(State::Terminated(end(3)), Record::new(Role::Main), RestartPolicy::Never).phase.unwrap(),
            "Failed"
        );
    }

    #[test]
    fn a_deleted_pod_whose_containers_ended_is_over_whatever_its_policy() {
        use RestartPolicy::Always;
        let ended = |code| Record { state: State::Terminated(end(code)), ..Record::new(Role::Main) };
        let init = Record { state: State::Terminated(end(0)), ..Record::new(Role::Init) };
        let phase = |main: Record, is_over| phase(&[init.clone(), main], Always, is_over);
        assert_eq!([phase(ended(0), false), phase(ended(0), true)], ["Running", "Succeeded"]);
        assert_eq!([phase(ended(143), false), phase(ended(143), true)], ["Running", "Failed"]);
        assert_eq!(
            phase(Record::new(Role::Main), true),
            "Failed",
            "a container that never ran did not succeed"
        );
    }

    #[test]
    fn the_same_state_gives_the_same_status() {
        let pod = pod();
        let members = containers::of(pod.spec.as_ref().unwrap());
        let records = [Record { state: State::Terminated(end(0)), ..Record::new(Role::Init) }, running(true)];
        let mut input = Input {
            pod: &pod,
            members: &members,
            records: &records,
            policy: RestartPolicy::Always,
            pod_ip: None,
            prepared: true,
            started_at: Timestamp::UNIX_EPOCH,
            progress: None,
            is_expired: false,
            is_ending: false,
            before: &PodStatus::default(),
            now: Timestamp::UNIX_EPOCH,
        };
        let first = compute(&input);
        let wire: PodStatus = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
        assert_eq!(first, wire, "what is written is what is read back");
        input.before = &first;
        input.now = Timestamp::from_second(1000).unwrap();
        assert_eq!(compute(&input), first);
    }
}
