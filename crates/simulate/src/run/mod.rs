//! A run: the events of a pool in the order of their times.

mod conversations;
mod endpoints;
mod engines;
mod pickers;
mod sampling;
mod scaling;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ahash::AHashMap;
use longboat_engine_model::BlockHash;
use longboat_kv_events::Event as BlockEvent;
use longboat_scheduler::{
    ConfigError, Options, Reservation, Scheduler, Slot, Slots, Snapshot, State,
    config::{LoadedConfig, load},
};

use self::{
    conversations::{Conversations, PromptTokens},
    pickers::{Notice, Picker},
};
use crate::{
    autoscaler::{Autoscaler, AutoscalerSettings},
    explain::PluginCounts,
    pool::{MAX_ENDPOINTS, Member, PoolChange, PoolSettings},
    rejection::Refusal,
    report::{Recorder, Report, Slo},
    request_times::RequestTimes,
    sample::{Outcome, Sampler},
    trace::{Requests, TraceError, TraceRequest},
};

/// Progress is reported once for so many requests.
const PROGRESS_INTERVAL: u64 = 1000;

/// A configuration of the picker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name in results.
    pub name: String,
    /// The `EndpointPickerConfig`.
    pub config: String,
    /// Feature gates of the picker's command line.
    pub gates: Vec<String>,
    /// Whether alpha plugins may be declared.
    pub allow_experimental: bool,
}

/// What is simulated, besides the policy and the trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The groups of equal endpoints.
    pub pool: Vec<PoolSettings>,
    /// What happens to the pool, sorted by time.
    pub changes: Vec<(Duration, PoolChange)>,
    /// The seed of the picker's random choices.
    pub seed: u64,
    /// The picker's interval between two scrapes of an endpoint.
    pub scrape: Duration,
    /// How long a KV cache event is on its way.
    pub event_delay: Duration,
    /// What a good request keeps.
    pub slo: Slo,
    /// Every n-th decision is explained. 0: none, and no sample of requests is kept for comparisons.
    pub explain_every: u64,
    /// The time from the creation of an endpoint to its first request.
    pub start_time: Duration,
    /// What sets the number of endpoints of the first group.
    pub autoscaler: Option<AutoscalerSettings>,
    /// The pickers. Requests are spread over them at random.
    pub pickers: PickerSettings,
}

/// The pickers of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PickerSettings {
    /// Their number.
    pub number: usize,
    /// How they know each other's decisions.
    pub sharing: Sharing,
}

/// How a picker knows what others have decided. KV cache events and metrics of engines reach all of them in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Not at all.
    Nothing,
    /// After this time. With zero, they have one state.
    After(Duration),
}

/// The most pickers: each keeps a state of its own.
pub const MAX_PICKERS: usize = 256;

impl Default for PickerSettings {
    fn default() -> Self {
        Self { number: 1, sharing: Sharing::Nothing }
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The picker would not start.
    #[error("policy `{policy}`: the picker will not start")]
    Config {
        /// The policy.
        policy: String,
        /// The cause.
        source: ConfigError,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The pool cannot be simulated.
    #[error("{0} endpoints: expected 1 to {MAX_ENDPOINTS}")]
    Endpoints(usize),
    /// The pickers cannot be simulated.
    #[error("{0} pickers: expected 1 to {MAX_PICKERS}")]
    Pickers(usize),
    /// A change names an endpoint that is not there.
    #[error(
        "there is no endpoint {number} that could fail at {} s: at this time, endpoints have the numbers 0 to {last}",
        at.as_secs_f64()
    )]
    NoEndpoint {
        /// The time of the change.
        at: Duration,
        /// The number.
        number: usize,
        /// The last number that exists.
        last: usize,
    },
    /// There is nothing to simulate.
    #[error("the traffic has no requests")]
    NoRequests,
    /// The autoscaler cannot be simulated.
    #[error("the autoscaler cannot be simulated: {0}")]
    Autoscaler(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Something happens in the engine of a member, unless its generation is a later one.
    Engine(usize, u64),
    /// The pool changes.
    Change(usize),
    /// A member has started.
    Ready(usize),
    /// The autoscaler looks at the metrics.
    Autoscale,
    /// The dispatcher of a picker looks whether there is room.
    Dispatch(usize),
}

/// A request after its arrival and before its end.
#[derive(Debug)]
struct OpenRequest {
    times: RequestTimes,
    /// What the picker needs of it, until it is sent.
    request: Option<(TraceRequest, PromptTokens)>,
    /// The picker that decides.
    picker: usize,
    hashes: Arc<[BlockHash]>,
    /// The members that decode and, if that is another one, compute the prompt.
    decode: usize,
    prefill: Option<usize>,
    /// Whether the prompt is computed.
    is_prefilled: bool,
    reservation: Option<Reservation>,
    /// Its load in the states of other pickers that know of it, by the places of the states.
    copies: Vec<(usize, Reservation)>,
    /// The prompt and the model or adapter, if KV cache events have them.
    tokens: Vec<u8>,
    model: String,
}

struct World<'s> {
    settings: &'s Settings,
    scheduler: Scheduler,
    /// The same scheduler with traces, for a sample of the decisions.
    tracing: Scheduler,
    flow: longboat_scheduler::flow::Settings,
    /// Whether requests may wait only for some time.
    expires: bool,
    pickers: Vec<Picker>,
    /// What the pickers know: a state for each, or one that they share.
    states: Vec<State>,
    /// When a request arrived or the number of endpoints changed.
    last_progress: u64,
    /// Whether the trace goes on.
    has_arrivals: bool,
    /// What pickers tell each other, by the time at which it is known.
    notices: VecDeque<(u64, Notice)>,
    autoscaler: Option<Autoscaler>,
    /// Requests that wait in the gateway until an autoscaler that goes to zero has started an endpoint.
    waking: VecDeque<u64>,
    members: Vec<Member>,
    slots: Slots,
    /// The members that may be picked, and their numbers in the same order.
    candidates: Vec<Snapshot>,
    numbers: Vec<usize>,
    /// The place of each member in `candidates`.
    places: Vec<Option<usize>>,
    /// Members with changes that no scrape has read, by the time of the scrape that will.
    unread: BinaryHeap<Reverse<(u64, usize)>>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    open: AHashMap<u64, OpenRequest>,
    conversations: Conversations,
    block_events: VecDeque<(u64, Slot, BlockEvent)>,
    knows_blocks: bool,
    recorder: Recorder,
    plugins: PluginCounts,
    decisions: u64,
    sampler: Sampler,
    most_endpoints: usize,
}

/// Simulates a trace. `progress` is called with the number of requests so far.
///
/// # Errors
/// If the picker would not start with the policy, or the trace cannot be read.
pub fn run(
    policy: &Policy,
    settings: &Settings,
    mut requests: Requests<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, RunError> {
    let mut world = World::new(policy, settings)?;
    let mut next = requests.next().transpose()?;
    let mut count = 0;
    loop {
        world.has_arrivals = next.is_some();
        if next.is_none() && world.open.is_empty() {
            break;
        }
        let event = world.events.peek().map(|Reverse((at, ..))| *at);
        // At the same moment, events come first: a request finds the places that others leave.
        if let Some(request) = next.take_if(|next| event.is_none_or(|event| nanos(next.at) < event)) {
            let at = nanos(request.at);
            world.arrive(count, request, at);
            count += 1;
            if count % PROGRESS_INTERVAL == 0 {
                progress(count);
            }
            next = requests.next().transpose()?;
        } else if event.is_some() {
            world.step()?;
        } else {
            // Nothing will ever happen to the requests that are left.
            break;
        }
    }
    if count == 0 { Err(RunError::NoRequests) } else { Ok(world.report(policy, count)) }
}

impl<'s> World<'s> {
    fn new(policy: &Policy, settings: &'s Settings) -> Result<Self, RunError> {
        let refused = |source| RunError::Config { policy: policy.name.clone(), source };
        let options = Options { allow_experimental: policy.allow_experimental, trace: false };
        let LoadedConfig { scheduler, flow, .. } =
            load(&policy.config, &policy.gates, options).map_err(refused)?;
        // Traces cost time for each endpoint and scorer, so most decisions are made without.
        let tracing =
            load(&policy.config, &policy.gates, Options { trace: true, ..options }).map_err(refused)?;
        endpoints::check(settings)?;
        if !(1..=MAX_PICKERS).contains(&settings.pickers.number) {
            return Err(RunError::Pickers(settings.pickers.number));
        }
        let (pickers, states) = pickers::pickers(settings.pickers, &scheduler, &flow, settings.seed);
        let autoscaler = settings.autoscaler.as_ref().map(Autoscaler::new).transpose();
        let mut world = Self {
            settings,
            autoscaler: autoscaler.map_err(RunError::Autoscaler)?,
            waking: VecDeque::new(),
            pickers,
            states,
            last_progress: 0,
            has_arrivals: true,
            notices: VecDeque::new(),
            knows_blocks: scheduler.knows_blocks(),
            scheduler,
            tracing: tracing.scheduler,
            expires: pickers::expires(&flow),
            flow,
            members: Vec::new(),
            slots: Slots::default(),
            candidates: Vec::new(),
            numbers: Vec::new(),
            places: Vec::new(),
            unread: BinaryHeap::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            open: AHashMap::new(),
            conversations: Conversations::default(),
            block_events: VecDeque::new(),
            recorder: Recorder::new(settings.slo),
            plugins: PluginCounts::default(),
            decisions: 0,
            sampler: Sampler::new(settings.explain_every > 0),
            most_endpoints: 0,
        };
        for (index, group) in settings.pool.iter().enumerate() {
            for _ in 0..group.replicas {
                world.add_member(index, 0, Duration::ZERO);
            }
        }
        world.list_candidates();
        for (index, (at, _)) in settings.changes.iter().enumerate() {
            world.schedule_event(nanos(*at), Event::Change(index));
        }
        if world.autoscaler.is_some() {
            world.schedule_event(0, Event::Autoscale);
        }
        Ok(world)
    }

    fn schedule_event(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        // Events of one moment come in the order in which they were scheduled, so each run has the same result.
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Handles the next event.
    fn step(&mut self) -> Result<(), RunError> {
        let Some(Reverse((now, _, event))) = self.events.pop() else { return Ok(()) };
        match event {
            Event::Engine(member, generation) => {
                if self.members[member].generation == generation {
                    self.with_engine(member, now, |_, _| {});
                }
            }
            Event::Change(index) => self.change(self.settings.changes[index].1, now),
            Event::Ready(member) => self.make_ready(member, now),
            Event::Autoscale => self.autoscale(now)?,
            Event::Dispatch(picker) => {
                self.pickers[picker].has_dispatch = false;
                self.dispatch(picker, now);
            }
        }
        Ok(())
    }

    /// Removes a request that gets no answer and has no place in the states of the pickers.
    fn refuse(&mut self, number: u64, refusal: Refusal) {
        self.open.remove(&number);
        self.note_refusal(number, refusal);
    }

    /// Records that a request gets no answer.
    fn note_refusal(&mut self, number: u64, refusal: Refusal) {
        self.recorder.rejections.add(refusal);
        self.sampler.end(number, Outcome::Refused(refusal));
    }

    fn report(mut self, policy: &Policy, requests: u64) -> Report {
        // Requests that still wait will never be answered.
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.note_refusal(number, Refusal::NoEndpoint);
        }
        let end = self.recorder.last();
        let seconds = self.members.iter().map(|member| {
            let until = member.removed_at.unwrap_or(end).max(member.since);
            let present = Duration::from_nanos(until - member.since).as_secs_f64();
            present * self.settings.pool[member.group].accelerators
        });
        let gpu_seconds = seconds.sum();
        let counts: Vec<u64> = self.members.iter().map(|member| member.requests).collect();
        let mut report =
            self.recorder.report(&policy.name, requests, &counts, self.most_endpoints, gpu_seconds);
        report.plugins = self.plugins.shares();
        report.sample = self.sampler.finish();
        report
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
