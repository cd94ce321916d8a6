//! Admission: which requests go on at once, which wait, and which are dropped because the pool is full.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use arc_swap::ArcSwap;
use longboat_scheduler::{
    ScheduleError, State,
    flow::{self, Arrival, Detector, Eviction, Lease, Reading, Stage, Ticket},
    millis,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    answer::{Code, Refusal, drop_reason},
    core::Core,
    gate::{EnqueueError, Gate, Next},
    pool::Member,
    saturation,
};

pub(crate) use crate::gate::Permit;

/// How often the dispatcher checks the saturation while requests wait.
const SATURATION_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The queue of waiting requests, and the state that decides which of them go on.
#[derive(Debug)]
pub(crate) struct Admission {
    settings: flow::Settings,
    gate: Arc<Gate<Sender>>,
    arrived: Notify,
    /// The requests that may be evicted. `None` if eviction is off.
    eviction: Option<Mutex<Eviction<oneshot::Sender<()>>>>,
    /// Priorities by the name of their objective.
    objectives: ArcSwap<BTreeMap<String, i32>>,
}

type Sender = oneshot::Sender<Result<Permit, Refusal>>;

/// A request that may go on.
#[derive(Debug)]
pub(crate) enum AdmissionResult {
    Now(Permit),
    Later(QueuePlace),
}

/// A place in the queue. Dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    gate: Arc<Gate<Sender>>,
    ticket: Ticket,
    verdict: oneshot::Receiver<Result<Permit, Refusal>>,
}

impl QueuePlace {
    /// Ready when the queue has decided about the request.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Permit, Refusal>> {
        let verdict = std::task::ready!(Pin::new(&mut self.verdict).poll(context));
        Poll::Ready(verdict.unwrap_or_else(|_| Err(shutting_down())))
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.gate.cancel(self.ticket);
    }
}

/// A request in flight that may be evicted.
#[derive(Debug)]
pub(crate) struct InFlight {
    lease: Lease,
    /// Receives a message if the request is evicted. `None` after that, or once it is clear that the request may stay.
    evicted: Option<oneshot::Receiver<()>>,
}

impl InFlight {
    /// Whether the request may still be evicted.
    pub(crate) fn waits(&self) -> bool {
        self.evicted.is_some()
    }

    /// Ready when the request must end to make room.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(evicted) = &mut self.evicted else { return Poll::Pending };
        let message = std::task::ready!(Pin::new(evicted).poll(context));
        self.evicted = None;
        // An error means that the sender was dropped: this request is not evictable.
        if message.is_ok() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Admission {
    /// Creates the admission state. `settling` is the time until the saturation shows that a request has ended.
    pub(crate) fn new(settings: flow::Settings, settling: Duration) -> Self {
        let evicts = settings.enabled && settings.eviction;
        Self {
            eviction: evicts.then(|| Mutex::new(Eviction::new(millis(settling)))),
            gate: Arc::new(Gate::new(settings.clone())),
            settings,
            arrived: Notify::new(),
            objectives: ArcSwap::default(),
        }
    }

    /// Returns the priority of requests with this objective. Returns 0 if no objective has this name.
    pub(crate) fn priority(&self, objective: Option<&str>) -> i32 {
        objective.and_then(|name| self.objectives.load().get(name).copied()).unwrap_or(0)
    }

    /// Replaces the objectives.
    pub(crate) fn set_objectives(&self, objectives: BTreeMap<String, i32>) {
        // Bands first: a request that finds its objective must also find its band, or it waits with priority 0.
        self.gate.with(|queue| queue.provision(objectives.values().copied()));
        self.objectives.store(Arc::new(objectives));
    }

    /// Lets a request go on, queues it, or refuses it.
    pub(crate) fn admit(&self, core: &Core, arrival: Arrival<'_>) -> Result<AdmissionResult, Refusal> {
        if !self.settings.enabled {
            if arrival.priority < 0 && self.saturation(core) >= 1.0 {
                return Err(ScheduleError::NotAdmitted.into());
            }
            return Ok(AdmissionResult::Now(self.gate.pass()));
        }
        let (sender, verdict) = oneshot::channel();
        let pushed = self.gate.push(arrival, sender, core.now_ms());
        let ticket = pushed.map_err(|refused| match refused {
            EnqueueError::Closed => shutting_down(),
            EnqueueError::Full => dropped(
                core,
                drop_reason::SATURATED,
                format!("request rejected from queue: {}", flow::QueueFull),
            ),
        })?;
        let mut queued = QueuePlace { gate: Arc::clone(&self.gate), ticket, verdict };
        // If the pool has room, the request goes on at once and does not wait for the dispatcher.
        self.turn(core);
        // The verdict may also come from the dispatcher, or from another request that took its turn meanwhile.
        if let Ok(verdict) = queued.verdict.try_recv() {
            return verdict.map(AdmissionResult::Now);
        }
        // If the dispatcher does not wait now, `Notify` keeps this for its next wait.
        self.arrived.notify_one();
        Ok(AdmissionResult::Later(queued))
    }

    /// Runs the dispatcher until shutdown.
    pub(crate) async fn run(&self, core: &Core, stop: CancellationToken) {
        loop {
            let waiting = !self.gate.is_empty();
            let next = async {
                if waiting {
                    // Nothing reports that the pool has room: loads are scraped, and change with each request that ends.
                    tokio::time::sleep(SATURATION_POLL_INTERVAL).await;
                } else {
                    self.arrived.notified().await;
                }
            };
            let Some(()) = stop.run_until_cancelled(next).await else { return };
            self.turn(core);
        }
    }

    /// Dispatches the requests that the pool has room for, and drops those that waited too long.
    pub(crate) fn turn(&self, core: &Core) {
        loop {
            let has_endpoints = !core.pool.members().is_empty();
            let Some(sender) = self.gate.expired(core.now_ms(), has_endpoints) else { break };
            let message = "request timed out in queue: request evicted from queue: request TTL expired";
            let _ = sender.send(Err(dropped(core, drop_reason::TTL_EXPIRED, message)));
        }
        loop {
            let started = Instant::now();
            let next = self.gate.next(|| self.saturation(core), core.now_ms());
            let (sender, permit) = match next {
                Next::Empty => return,
                Next::Saturated => {
                    core.metrics.flow.cycle(started.elapsed());
                    return self.evict(core);
                }
                Next::Admitted(sender, permit) => (sender, permit),
            };
            core.metrics.flow.cycle(started.elapsed());
            // If the client is gone, the send fails and drops the permit.
            let _ = sender.send(Ok(permit));
        }
    }

    /// Called when no waiting request can go on. If eviction is on, this evicts requests in flight of lower priority to make
    /// room.
    fn evict(&self, core: &Core) {
        let Some(eviction) = &self.eviction else { return };
        let (saturation, now) = (self.saturation(core), core.now_ms());
        // One lock after the other, so that no thread ever holds both.
        let blocked = self.gate.with(|queue| queue.blocked(saturation));
        let (late, victims, pending) = {
            let mut eviction = eviction.lock();
            let late = eviction.late(now);
            let victims = blocked.map_or_else(Vec::new, |blocked| eviction.decide(blocked, saturation, now));
            (late, victims, eviction.pending())
        };
        for gone in late {
            core.metrics.eviction.gone(gone, pending);
        }
        let Some(blocked) = blocked.filter(|_| !victims.is_empty()) else { return };
        let target = saturation - blocked.ceiling;
        core.metrics.eviction.evicted(blocked.priority, victims.len(), (target, pending));
        for victim in victims {
            // The send fails if the request has ended meanwhile. That makes room too.
            let _ = victim.send(());
        }
    }

    /// Records that a request of this priority was sent to an endpoint. Returns `None` if eviction is off.
    pub(crate) fn sent(&self, priority: i32) -> Option<InFlight> {
        let eviction = self.eviction.as_ref()?;
        let (sender, evicted) = oneshot::channel();
        let lease = eviction.lock().enter(priority, sender);
        Some(InFlight { lease, evicted: Some(evicted) })
    }

    /// Records that the request is no longer in flight.
    pub(crate) fn ended(&self, core: &Core, request: &InFlight) {
        let Some(eviction) = &self.eviction else { return };
        let (gone, pending) = {
            let mut eviction = eviction.lock();
            (eviction.leave(request.lease, core.now_ms()), eviction.pending())
        };
        if let Some(gone) = gone {
            core.metrics.eviction.gone(gone, pending);
        }
    }

    /// Drops all waiting requests and refuses new ones. Called at shutdown.
    pub(crate) fn close(&self) {
        self.gate.close(|sender| {
            let _ = sender.send(Err(shutting_down()));
        });
    }

    /// Whether the fairness policy uses the service that each flow has received.
    pub(crate) fn asks_for_service(&self) -> bool {
        self.settings.asks_for_service()
    }

    /// Records that a request of this flow was answered. `tokens` counts the tokens of its prompt and of its response.
    pub(crate) fn served(&self, core: &Core, flow: &str, tokens: (u64, u64)) {
        self.gate.with(|queue| queue.served(flow, tokens, core.now_ms()));
    }

    /// Returns the used share of each limit.
    pub(crate) fn shares(&self) -> flow::Shares {
        self.gate.with(|queue| queue.shares())
    }

    /// Returns the service that each flow has received. Empty if no fairness policy counts it.
    pub(crate) fn service(&self, core: &Core) -> Vec<(Arc<str>, flow::FlowService)> {
        self.gate.with(|queue| queue.service(core.now_ms()))
    }

    /// Returns the number of endpoints without recent metrics. Returns `None` if the saturation is not computed from metrics.
    pub(crate) fn stale_endpoints(&self, core: &Core) -> Option<usize> {
        let stale_after_ms = self.settings.detector.leaves().find_map(|leaf| match leaf {
            Detector::Utilization { stale_after_ms, .. } => Some(*stale_after_ms),
            _ => None,
        })?;
        let (now, limit) = (Instant::now(), Duration::from_millis(stale_after_ms));
        let members = core.pool.members();
        Some(members.iter().filter(|member| !member.snapshot(now, Some(limit)).fresh).count())
    }

    /// Returns the saturation of the pool.
    fn saturation(&self, core: &Core) -> f64 {
        self.measure(core, |settings, state, members, admitted| settings.saturation(state, members, admitted))
    }

    /// Returns the saturation of the pool and of each stage, and what each of several detectors measures.
    pub(crate) fn saturations(&self, core: &Core) -> (f64, Vec<(Stage, f64)>, Vec<Reading<'_>>) {
        self.measure(core, |settings, state, members, admitted| {
            let detector = &settings.detector;
            (
                settings.saturation(state, members, admitted),
                detector.stages(state, members, admitted),
                detector.readings(state, members, admitted),
            )
        })
    }

    /// Calls `measure` with the number of requests that go to an endpoint which is not chosen yet.
    fn measure<'d, T>(
        &'d self,
        core: &Core,
        measure: impl FnOnce(&'d flow::Settings, &State, &[&Member], &dyn Fn() -> u64) -> T,
    ) -> T {
        saturation::of_pool(&core.pool, &core.state, |state, members| {
            measure(&self.settings, state, members, &|| self.gate.admitted())
        })
    }
}

/// The refusal of a dropped request. A pool without endpoints has its own status and reason.
fn dropped(core: &Core, reason: &'static str, message: impl Into<String>) -> Refusal {
    if core.pool.members().is_empty() {
        return Refusal::dropped(Code::ServiceUnavailable, drop_reason::NO_ENDPOINTS, message);
    }
    Refusal::dropped(Code::ResourceExhausted, reason, message)
}

fn shutting_down() -> Refusal {
    let message = "the endpoint picker shuts down";
    Refusal::dropped(Code::ServiceUnavailable, drop_reason::SHUTTING_DOWN, message)
}
