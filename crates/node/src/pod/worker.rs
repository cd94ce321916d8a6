//! The worker of one pod, from its creation to its end: handles messages, decides ([`super::machine`]), acts, and writes the
//! status.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use longboat_quantity::duration;
use longboat_watch::text_of;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::containers::{self, Member};
use super::deletion;
use super::directory::PodDirectory;
use super::download::Download;
use super::machine::{self, Record, RestartPolicy, Role, State};
use super::shared::{Shared, Shutdown};
use super::status;
use crate::address::AddressLease;
use crate::container::env::PodFacts;
use crate::container::instance::{InstanceEvent, Stop};
use crate::container::log::ContainerLog;
use crate::controllers::{api_beside, sleep_until};
use crate::events::{Severity, reference};
use crate::pod_access::{PodEntry, PodRegistration};
use crate::private;
use crate::probe::{Kind, Report, Target};
use crate::registration::HOST_IP;

/// The capacity of the queue of messages from a pod's tasks. Each container has at most one instance and three probers,
/// which wait if the queue is full.
const MAX_MESSAGES: usize = 32;

/// The wait before a failed write is retried.
pub(super) const WRITE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The pod as the API server shows it.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) pod: Arc<Pod>,
    /// Whether the object was deleted.
    pub(super) gone: bool,
}

/// The reports of a pod's tasks. `number` identifies the instance.
#[derive(Debug)]
pub(super) enum Message {
    Instance { index: usize, number: u32, event: InstanceEvent },
    Probe { index: usize, number: u32, kind: Kind, report: Report },
}

/// A running instance.
#[derive(Debug)]
pub(super) struct RunningInstance {
    pub(super) number: u32,
    pub(super) stop: watch::Sender<Option<Stop>>,
    pub(super) target: Target,
    pub(super) started: Instant,
    /// The probers, which end with the instance.
    pub(super) probers: JoinSet<()>,
}

/// The request to end the pod.
#[derive(Debug, Clone, Copy)]
struct TerminationRequest {
    stop: Stop,
    /// Whether the worker still reports the status to the API server.
    report: bool,
    /// Whether the pod's object stays when its containers have ended.
    is_expiry: bool,
}

/// The state of one pod.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) pod: Arc<Pod>,
    pub(super) members: Vec<Member>,
    pub(super) records: Vec<Record>,
    pub(super) running: Vec<Option<RunningInstance>>,
    pub(super) logs: Vec<ContainerLog>,
    pub(super) directory: PodDirectory,
    /// The folders of the volumes, once they are mounted.
    pub(super) volumes: Option<BTreeMap<String, PathBuf>>,
    pub(super) facts: PodFacts,
    /// The tokens of the pod's service account by audience, once they were requested.
    pub(super) tokens: Option<BTreeMap<String, String>>,
    pub(super) instances: JoinSet<()>,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) retry_at: Option<Instant>,
    pub(super) download: Download,
    inbox: mpsc::Receiver<Message>,
    address: Option<AddressLease>,
    pub(super) registered: Option<PodRegistration>,
    policy: RestartPolicy,
    started_at: Timestamp,
    published: PodStatus,
    ending: Option<TerminationRequest>,
    /// Whether the pod was active for longer than `activeDeadlineSeconds`.
    is_expired: bool,
}

/// Runs a pod to its end.
pub(super) async fn run(shared: Arc<Shared>, mut view: watch::Receiver<View>) {
    let pod = Arc::clone(&view.borrow_and_update().pod);
    if let Some("Succeeded" | "Failed") = pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        deletion::complete(&shared, view).await;
        return;
    }
    let mut worker = loop {
        match Worker::new(&shared, Arc::clone(&pod)) {
            Ok(worker) => break worker,
            Err(message) => {
                shared.recorder.publish(pod.as_ref(), Severity::Warning, "FailedCreatePodSandBox", message);
            }
        }
        let mut shutdown = shared.shutdown.clone();
        tokio::select! {
            () = tokio::time::sleep(shared.timing.prepare_retry * 5) => {}
            _ = shutdown.wait_for(Option::is_some) => return,
            _ = view.wait_for(|view| view.gone) => return,
        }
        let current = view.borrow_and_update().pod.clone();
        if current.metadata.deletion_timestamp.is_some() {
            deletion::delete(&shared, &current).await;
        }
    };
    worker.work(&mut view).await;
    drop(worker);
    deletion::wait(&shared, view).await;
}

impl Worker {
    /// Takes an address and creates the pod's folder. The error is the text of an event.
    fn new(shared: &Arc<Shared>, pod: Arc<Pod>) -> Result<Self, String> {
        let spec = pod.spec.clone().unwrap_or_default();
        let namespace = pod.namespace().unwrap_or_default();
        let (address, pod_ip) = if spec.host_network == Some(true) {
            (None, HOST_IP.to_owned())
        } else {
            let lease = shared
                .addresses
                .lease()
                .ok_or("no pod address is free: delete pods, or use a larger range")?;
            let ip = lease.ip().to_string();
            (Some(lease), ip)
        };
        let uid = pod.uid().unwrap_or_default();
        let directory = PodDirectory::create(&shared.pods_dir, &uid)
            .map_err(|error| format!("cannot write {}: {error}", shared.pods_dir.join(&uid).display()))?;
        let members = containers::of(&spec);
        let mut logs = Vec::with_capacity(members.len());
        for member in &members {
            let name = &member.container.name;
            if !private::is_name(name) {
                return Err(format!("`{name}` is not a valid container name"));
            }
            for folder in [directory.scratch(name), directory.logs(name)] {
                private::create_dir(&folder)
                    .map_err(|error| format!("cannot write {}: {error}", folder.display()))?;
            }
            logs.push(ContainerLog::new(directory.logs(name)));
        }
        let published = pod.status.clone().unwrap_or_default();
        let records = members.iter().map(|member| member.record(&published)).collect();
        let facts = PodFacts { pod_ip, host_ip: HOST_IP.to_owned(), node_name: shared.node_name.clone() };
        let entry = PodEntry {
            uid,
            ip: facts.pod_ip.clone(),
            logs: members
                .iter()
                .zip(&logs)
                .map(|(member, log)| (member.container.name.clone(), log.clone()))
                .collect(),
            running: parking_lot::Mutex::default(),
            status: parking_lot::Mutex::default(),
            main: members.iter().filter(|m| m.role == Role::Main).map(|m| m.container.name.clone()).collect(),
            default: pod.annotations().get("kubectl.kubernetes.io/default-container").cloned(),
        };
        let registered = shared.registry.add(&namespace, &pod.name_any(), entry);
        let started_at = published.start_time.as_ref().map_or_else(Timestamp::now, |time| time.0);
        let (messages, inbox) = mpsc::channel(MAX_MESSAGES);
        Ok(Self {
            shared: Arc::clone(shared),
            policy: RestartPolicy::parse(spec.restart_policy.as_deref()),
            pod,
            running: members.iter().map(|_| None).collect(),
            members,
            records,
            logs,
            directory,
            volumes: None,
            tokens: None,
            facts,
            instances: JoinSet::new(),
            messages,
            inbox,
            address,
            registered: Some(registered),
            retry_at: None,
            download: Download::default(),
            started_at,
            published,
            ending: None,
            is_expired: false,
        })
    }

    async fn work(&mut self, view: &mut watch::Receiver<View>) {
        let mut shutdown = self.shared.shutdown.clone();
        let mut sync = tokio::time::interval_at(
            Instant::now() + self.shared.timing.volume_sync,
            self.shared.timing.volume_sync,
        );
        sync.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            // Marks the state as seen before acting on it, so that a change during the step ends the wait below at once.
            self.observe(&view.borrow_and_update().clone(), *shutdown.borrow_and_update());
            let expiry = self.check_deadline();
            let (ended, wake) = self.step().await;
            let look = self.poll_download();
            let wake = wake.into_iter().chain(expiry).chain(look).chain(self.publish().await);
            let wake = wake.chain(self.retry_at).min();
            if ended && let Some(ending) = self.ending.filter(|ending| !ending.is_expiry) {
                if !ending.report || deletion::delete(&self.shared, &self.pod).await {
                    break;
                }
                // Tried until it succeeds: nobody else deletes the object, and it blocks its name.
                tokio::time::sleep(WRITE_RETRY_INTERVAL).await;
                continue;
            }
            tokio::select! {
                changed = view.changed() => if changed.is_err() { break },
                _ = shutdown.changed() => {}
                Some(message) = self.inbox.recv() => {
                    self.take(message);
                    // Messages that arrive at the same time share one status write.
                    while let Ok(message) = self.inbox.try_recv() {
                        self.take(message);
                    }
                }
                () = sleep_until(wake) => self.retry_at = None,
                _ = sync.tick(), if self.volumes.is_some() => self.sync_volumes().await,
            }
        }
        // Before the folder is removed, because the processes write to it.
        self.instances.shutdown().await;
        self.registered = None;
        self.directory.remove();
    }

    /// Reads the progress of the download, if one runs. Returns when to read again.
    fn poll_download(&mut self) -> Option<Instant> {
        // Init containers run one after another, so at most one download runs.
        let running = self.members.iter().zip(&self.records).zip(&self.running).find_map(
            |((member, record), running)| {
                let runs = member.role == Role::Init && matches!(record.state, State::Running { .. });
                running.as_ref().filter(|_| runs)
            },
        );
        self.download.look(running.map(|running| &*running.target.launch), self.shared.timing.progress)
    }

    /// Applies changes of the pod object and of the node's shutdown.
    fn observe(&mut self, view: &View, shutdown: Shutdown) {
        let now = Instant::now();
        // A newer pod of the same name has a worker of its own.
        if view.pod.metadata.uid == self.pod.metadata.uid {
            self.pod = Arc::clone(&view.pod);
        }
        let (deadline, pre_stop, report) = if let Some(deadline) = shutdown {
            (deadline, false, false)
        } else if view.gone {
            (now, false, false)
        } else if self.pod.metadata.deletion_timestamp.is_some() {
            let grace = self.grace();
            (now + grace, !grace.is_zero(), true)
        } else {
            return;
        };
        self.end(TerminationRequest { stop: Stop { deadline, pre_stop }, report, is_expiry: false });
    }

    /// Ends the pod if it was active for longer than it may be. Otherwise returns when this will be the case.
    fn check_deadline(&mut self) -> Option<Instant> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        if self.ending.is_some() || machine::has_ended(&self.records, self.policy) {
            return None;
        }
        let active = Timestamp::now().duration_since(self.started_at);
        let left = SignedDuration::from_secs(seconds).saturating_sub(active);
        let now = Instant::now();
        if left.is_positive() {
            return now.checked_add(left.unsigned_abs());
        }
        let recorder = &self.shared.recorder;
        recorder.publish(self.pod.as_ref(), Severity::Normal, status::EXPIRED, status::EXPIRED_MESSAGE);
        let stop = Stop { deadline: now + self.grace(), pre_stop: true };
        self.end(TerminationRequest { stop, report: true, is_expiry: true });
        self.is_expired = true;
        None
    }

    /// Returns the grace period of the pod.
    pub(super) fn grace(&self) -> Duration {
        let seconds = self
            .pod
            .metadata
            .deletion_grace_period_seconds
            .or_else(|| self.pod.spec.as_ref()?.termination_grace_period_seconds)
            .unwrap_or(30);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Starts the end of the pod, or moves its deadline forward.
    fn end(&mut self, wanted: TerminationRequest) {
        // Several requests add up to the strictest one: they never lengthen the time that is left.
        let ending = match self.ending {
            None => wanted,
            Some(current) => TerminationRequest {
                stop: Stop {
                    deadline: current.stop.deadline.min(wanted.stop.deadline),
                    pre_stop: current.stop.pre_stop && wanted.stop.pre_stop,
                },
                report: current.report && wanted.report,
                is_expiry: current.is_expiry && wanted.is_expiry,
            },
        };
        for running in self.running.iter().flatten() {
            running.stop.send_if_modified(|stop| {
                // Instances that were not asked to stop yet learn the deadline when their turn comes, in `step`. One that stops
                // already, because it has failed its probe, may have had more time.
                let Some(asked) = stop else { return false };
                let deadline = asked.deadline.min(ending.stop.deadline);
                let stricter = Stop { deadline, pre_stop: asked.pre_stop && ending.stop.pre_stop };
                std::mem::replace(asked, stricter) != stricter
            });
        }
        self.ending = Some(ending);
    }

    /// Takes the actions that are due. Returns whether the pod has ended, and when to act again.
    async fn step(&mut self) -> (bool, Option<Instant>) {
        let now = Instant::now();
        if self.ending.is_none() && self.volumes.is_none() && !self.prepare().await {
            return (false, self.retry_at);
        }
        let timing = self.shared.timing.clone();
        let decision = machine::decide(&self.records, self.policy, self.ending.is_some(), now, &timing);
        for index in decision.stop {
            let stop = self
                .ending
                .map_or(Stop { deadline: now + self.grace(), pre_stop: true }, |ending| ending.stop);
            if self.request_stop(index, stop) {
                let name = &self.members[index].container.name;
                self.say(index, Severity::Normal, "Killing", format!("Stopping container {name}"));
            }
        }
        for (index, due) in decision.back_off {
            self.back_off(index, due);
        }
        for index in decision.start {
            self.start(index).await;
        }
        if decision.ended {
            self.records.iter_mut().for_each(Record::give_up_restart);
        }
        if decision.ended && self.ending.is_none_or(|ending| ending.is_expiry) {
            // Nobody will connect to a pod that has ended, so its address is freed.
            self.address = None;
        }
        (decision.ended, decision.wake)
    }

    /// Requests the end of an instance. Returns `false` if it was requested before.
    pub(super) fn request_stop(&mut self, index: usize, request: Stop) -> bool {
        let State::Running { stopping, .. } = &mut self.records[index].state else { return false };
        if std::mem::replace(stopping, true) {
            return false;
        }
        if let Some(running) = &self.running[index] {
            running.stop.send_replace(Some(request));
        }
        true
    }

    /// Reports that a container waits for its restart.
    fn back_off(&mut self, index: usize, due: Instant) {
        let record = &mut self.records[index];
        let State::Terminated(end) = &record.state else { return };
        let (_, wait) = record.backoff.due(end.ended, &self.shared.timing);
        let name = &self.members[index].container.name;
        let pod = format!(
            "{}_{}({})",
            self.pod.name_any(),
            self.pod.namespace().unwrap_or_default(),
            self.pod.uid().unwrap_or_default()
        );
        let waiting = State::Waiting {
            reason: "CrashLoopBackOff",
            message: Some(format!(
                "back-off {} restarting failed container={name} pod={pod}",
                duration::text(wait)
            )),
            not_before: Some(due),
        };
        let message = format!("Back-off restarting failed container {name} in pod {pod}");
        if let State::Terminated(end) = std::mem::replace(&mut record.state, waiting) {
            record.last = Some(end);
        }
        self.say(index, Severity::Warning, "BackOff", message);
    }

    /// Records an event about a container.
    pub(super) fn say(&self, index: usize, severity: Severity, reason: &'static str, message: String) {
        let about = ObjectReference {
            field_path: Some(self.members[index].field_path()),
            ..reference(self.pod.as_ref())
        };
        self.shared.recorder.publish_about(about, severity, reason, message);
    }

    /// Writes the status if it has changed. Returns when to retry if the write failed.
    async fn publish(&mut self) -> Option<Instant> {
        if self.ending.is_some_and(|ending| !ending.report) {
            return None;
        }
        let status = status::compute(&status::Input {
            pod: &self.pod,
            members: &self.members,
            records: &self.records,
            policy: self.policy,
            pod_ip: Some(self.facts.pod_ip.clone()),
            prepared: self.volumes.is_some(),
            started_at: self.started_at,
            progress: self.download.progress.as_deref(),
            is_expired: self.is_expired,
            is_ending: self.ending.is_some_and(|ending| !ending.is_expiry),
            before: &self.published,
            now: Timestamp::now(),
        });
        if let Some(registered) = &self.registered {
            registered.reports(&status);
        }
        if status == self.published {
            return None;
        }
        let api: Api<Pod> = api_beside(&self.shared.client, &*self.pod);
        // With the uid, the API server refuses the status of a former pod of this name.
        let patch = Patch::Merge(json!({"metadata": {"uid": self.pod.uid()}, "status": status}));
        match api.patch_status(&self.pod.name_any(), &PatchParams::default(), &patch).await {
            Ok(_) => {
                self.published = status;
                None
            }
            // The pod is gone, and its view says so soon.
            Err(kube::Error::Api(answer)) if answer.code == 404 => None,
            Err(error) => {
                tracing::debug!(error = %text_of(&error), pod = %self.pod.name_any(), "Cannot write the status of a pod.");
                Some(Instant::now() + WRITE_RETRY_INTERVAL)
            }
        }
    }
}
