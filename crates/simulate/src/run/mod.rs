//! A run: the events of a pool in the order of their times.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ahash::AHashMap;
use longboat_engine_model::{BlockHash, EnqueueError, Job, Output, block_hashes};
use longboat_kv_events::{Event as BlockEvent, Stored};
use longboat_scheduler::{
    ConfigError, HeaderLookup, Options, Prompt, Request, Reservation, ScheduleError, Scheduler, Slot, Slots,
    Snapshot, State,
    config::{LoadedConfig, load},
    flow::{Arrival, Queue, UsageLimit},
};
use rand::{SeedableRng as _, rngs::StdRng};

use crate::{
    explain::PluginCounts,
    pool::{MAX_ENDPOINTS, Member, PoolChange, PoolEntry, PoolSettings},
    report::{Recorder, Report, RequestTimes, Slo},
    trace::{Requests, TraceError, TraceRequest},
};

/// How often the picker's dispatcher looks whether the pool has room, in nanoseconds.
const DISPATCH_INTERVAL: u64 = 1_000_000;
const MILLISECOND: u64 = 1_000_000;
/// The medium of blocks in KV cache events.
const GPU: &str = "gpu";
/// The bytes of a request besides its prompt, for limits of the picker's queue.
const REQUEST_BYTES: u64 = 200;
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
    /// One decision in so many is examined for what decided it. 0: none.
    pub explain_every: u64,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Something happens in the engine of a member, unless its generation is a later one.
    Engine(usize, u64),
    /// The pool changes.
    Change(usize),
    /// The dispatcher looks whether there is room.
    Dispatch,
}

/// A request after its arrival and before its end.
#[derive(Debug)]
struct OpenRequest {
    times: RequestTimes,
    /// What the picker needs of it, until it is sent.
    request: Option<(TraceRequest, Vec<u8>)>,
    hashes: Arc<[BlockHash]>,
    /// The members that decode and, if that is another one, compute the prompt.
    decode: usize,
    prefill: Option<usize>,
    /// Whether the prompt is computed.
    is_prefilled: bool,
    reservation: Option<Reservation>,
    /// The prompt and the model or adapter, if KV cache events have them.
    tokens: Vec<u8>,
    model: String,
}

struct SessionHeader<'a>(Option<&'a str>);

impl HeaderLookup for SessionHeader<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.filter(|_| name == "x-session-id")
    }
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct World<'s> {
    settings: &'s Settings,
    scheduler: Scheduler,
    /// The same scheduler with traces, for a sample of the decisions.
    tracing: Scheduler,
    state: State,
    flow: longboat_scheduler::flow::Settings,
    queue: Queue<u64>,
    has_dispatch: bool,
    /// Whether requests may wait only for some time.
    expires: bool,
    /// Whether something has happened since the dispatcher last looked.
    has_news: bool,
    random: StdRng,
    members: Vec<Member>,
    slots: Slots,
    /// The members that may be picked, and their numbers in the same order.
    candidates: Vec<Snapshot>,
    numbers: Vec<usize>,
    /// The place of each member in `candidates`.
    places: Vec<Option<usize>>,
    /// Members with changes that no scrape has read.
    unread: Vec<usize>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    open: AHashMap<u64, OpenRequest>,
    block_events: VecDeque<(u64, Slot, BlockEvent)>,
    knows_blocks: bool,
    recorder: Recorder,
    plugins: PluginCounts,
    decisions: u64,
    most_endpoints: usize,
}

/// Simulates a trace. `progress` is called with the number of requests so far.
///
/// # Errors
/// If the picker would not start with the policy, or the trace cannot be read.
pub fn run(
    policy: &Policy,
    settings: &Settings,
    requests: Requests<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, RunError> {
    let mut world = World::new(policy, settings)?;
    let mut requests = requests.enumerate();
    let mut next = requests.next();
    let mut count = 0;
    loop {
        let arrival = match &next {
            Some((_, Ok(request))) => Some(nanos(request.at)),
            None if world.open.is_empty() => break,
            Some((_, Err(_))) | None => None,
        };
        let event = world.events.peek().map(|Reverse((at, ..))| *at);
        if let Some((_, Err(_))) = &next
            && let Some((_, Err(error))) = next.take()
        {
            return Err(error.into());
        }
        match (arrival, event) {
            (Some(at), event) if event.is_none_or(|event| at < event) => {
                if let Some((number, Ok(request))) = next.take() {
                    world.arrive(number as u64, request, at);
                    count += 1;
                    if count % PROGRESS_INTERVAL == 0 {
                        progress(count);
                    }
                }
                next = requests.next();
            }
            (_, Some(_)) => world.step(),
            // Nothing will ever happen to the requests that are left.
            _ => break,
        }
    }
    Ok(world.report(policy, count))
}

impl<'s> World<'s> {
    fn new(policy: &Policy, settings: &'s Settings) -> Result<Self, RunError> {
        let refused = |source| RunError::Config { policy: policy.name.clone(), source };
        let options = Options { allow_experimental: policy.allow_experimental, trace: false };
        let LoadedConfig { scheduler, flow, .. } =
            load(&policy.config, &policy.gates, options).map_err(refused)?;
        let tracing =
            load(&policy.config, &policy.gates, Options { trace: true, ..options }).map_err(refused)?;
        let total: usize = settings.pool.iter().map(|group| group.replicas).sum();
        let replicas = settings.changes.iter().filter_map(|(_, change)| match change {
            PoolChange::Replicas(replicas) => Some(*replicas),
            PoolChange::Fail(_) => None,
        });
        let most = replicas.fold(total, usize::max);
        if total == 0 || most > MAX_ENDPOINTS {
            return Err(RunError::Endpoints(if total == 0 { 0 } else { most }));
        }
        let mut world = Self {
            settings,
            state: scheduler.state(),
            knows_blocks: scheduler.knows_blocks(),
            scheduler,
            tracing: tracing.scheduler,
            queue: Queue::new(flow.clone()),
            expires: expires(&flow),
            flow,
            has_dispatch: false,
            has_news: true,
            random: StdRng::seed_from_u64(settings.seed),
            members: Vec::new(),
            slots: Slots::default(),
            candidates: Vec::new(),
            numbers: Vec::new(),
            places: Vec::new(),
            unread: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            open: AHashMap::new(),
            block_events: VecDeque::new(),
            recorder: Recorder::new(settings.slo),
            plugins: PluginCounts::default(),
            decisions: 0,
            most_endpoints: 0,
        };
        for (index, group) in settings.pool.iter().enumerate() {
            for _ in 0..group.replicas {
                world.add_member(index, 0);
            }
        }
        world.list_candidates();
        for (index, (at, _)) in settings.changes.iter().enumerate() {
            world.schedule_event(nanos(*at), Event::Change(index));
        }
        Ok(world)
    }

    fn schedule_event(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Handles the next event.
    fn step(&mut self) {
        let Some(Reverse((now, _, event))) = self.events.pop() else { return };
        match event {
            Event::Engine(member, generation) => {
                if self.members[member].generation == generation {
                    self.with_engine(member, now, |_, _| {});
                }
            }
            Event::Change(index) => self.change(self.settings.changes[index].1, now),
            Event::Dispatch => {
                self.has_dispatch = false;
                self.dispatch(now);
            }
        }
    }

    // === requests ===

    fn arrive(&mut self, number: u64, request: TraceRequest, now: u64) {
        self.recorder.arrival(now, self.open.len());
        let bytes = request.prompt.bytes(number);
        let prompt_tokens = bytes.len().div_ceil(4);
        let times = RequestTimes {
            arrived: now,
            output_tokens: request.output_tokens,
            prompt_tokens,
            ..RequestTimes::default()
        };
        let (priority, size) = (request.priority, bytes.len() as u64 + REQUEST_BYTES);
        let open = OpenRequest {
            times,
            request: Some((request, bytes)),
            hashes: Arc::default(),
            decode: 0,
            prefill: None,
            is_prefilled: false,
            reservation: None,
            tokens: Vec::new(),
            model: String::new(),
        };
        self.open.insert(number, open);
        if !self.flow.enabled {
            if priority < 0 && self.saturation(now) >= 1.0 {
                self.open.remove(&number);
                self.recorder.rejections.picker += 1;
                return;
            }
            return self.send(number, now);
        }
        self.queue.provision([priority]);
        let arrival = Arrival { priority, flow: "", bytes: size, within_ms: None };
        if self.queue.push(arrival, number, now / MILLISECOND).is_err() {
            self.open.remove(&number);
            self.recorder.rejections.picker += 1;
            return;
        }
        self.has_news = true;
        self.dispatch(now);
    }

    /// Sends the waiting requests for which the pool has room, and drops those that have waited too long.
    fn dispatch(&mut self, now: u64) {
        while let Some(number) = self.queue.expired(now / MILLISECOND, !self.candidates.is_empty()) {
            self.open.remove(&number);
            self.recorder.rejections.picker += 1;
        }
        // Without news the saturation is the same, except for metrics that a scrape has read meanwhile. One policy lets a
        // request go in every so many cycles.
        let counts_cycles = self.flow.usage_limit == UsageLimit::SoftReflective;
        if self.has_news || !self.unread.is_empty() || counts_cycles {
            self.has_news = false;
            while !self.queue.is_empty() {
                let saturation = self.saturation(now);
                let Some(number) = self.queue.pop(saturation, now / MILLISECOND) else { break };
                self.send(number, now);
            }
        }
        // If nothing is computed and nothing expires, only an arrival or a change of the pool can help. Both dispatch.
        let can_change = self.open.len() > self.queue.len() || !self.unread.is_empty() || self.expires;
        if !self.queue.is_empty() && !self.has_dispatch && can_change {
            self.has_dispatch = true;
            self.schedule_event(now + DISPATCH_INTERVAL, Event::Dispatch);
        }
    }

    fn saturation(&mut self, now: u64) -> f64 {
        self.scrape(now);
        let age = self.settings.scrape;
        let entries: Vec<PoolEntry<'_>> = self.candidates.iter().map(|one| PoolEntry(one, age)).collect();
        // Requests are sent at the moment at which they are admitted, so none is in between.
        self.flow.detector.saturation(&self.state, entries.iter(), &|| 0)
    }

    /// Updates the candidates whose changes a scrape has read.
    fn scrape(&mut self, now: u64) {
        let interval = nanos(self.settings.scrape);
        let (members, places, candidates) = (&mut self.members, &self.places, &mut self.candidates);
        self.unread.retain(|&number| {
            let is_unread = members[number].scrape(now, interval);
            members[number].is_listed = is_unread;
            if !is_unread && let Some(place) = places[number] {
                candidates[place] = members[number].snapshot();
            }
            is_unread
        });
    }

    /// Lets the picker choose, and sends the request to the chosen engine.
    fn send(&mut self, number: u64, now: u64) {
        let Some((request, bytes)) = self.open.get_mut(&number).and_then(|open| open.request.take()) else {
            return;
        };
        self.scrape(now);
        self.apply_block_events(now);
        let limit = self.scheduler.text_limit().min(bytes.len());
        let exact = request.prompt.is_exact();
        let cut = if exact { 0 } else { bytes.len() - limit };
        let kept = if exact { bytes.clone() } else { bytes[..limit].to_vec() };
        let prompts = [Prompt { bytes: kept, cut }];
        let headers = SessionHeader(request.session.as_deref());
        let picked = Request {
            id: "",
            model: request.adapter.as_deref().unwrap_or(&request.model),
            cache_salt: "",
            prompts: &prompts,
            exact,
            multimodal: false,
            priority: request.priority,
            predictions: &[],
            together: None,
            media: &[],
            headers: &headers,
        };
        self.decisions += 1;
        let every = self.settings.explain_every;
        let is_sample = every > 0 && self.decisions.is_multiple_of(every);
        let scheduler = if is_sample { &self.tracing } else { &self.scheduler };
        let now_ms = now / MILLISECOND;
        let decision =
            match scheduler.schedule(&self.state, &picked, &self.candidates, now_ms, &mut self.random) {
                Ok(decision) => decision,
                Err(error) => {
                    self.open.remove(&number);
                    match error {
                        ScheduleError::NotAdmitted | ScheduleError::TooSlow => {
                            self.recorder.rejections.picker += 1;
                        }
                        _ => self.recorder.rejections.no_endpoint += 1,
                    }
                    return;
                }
            };
        if is_sample {
            self.plugins.add(&decision, self.candidates.len());
        }
        let stages = decision.stages();
        let reservation = self.scheduler.commit(&mut self.state, &decision);
        let decode = stages.decode.map_or(0, |place| self.numbers[place]);
        let prefill = stages.prefill.map(|place| self.numbers[place]).filter(|prefill| *prefill != decode);
        let first = prefill.unwrap_or(decode);
        let block_size = self.members[first].engine.parameters().block_size;
        let Some(open) = self.open.get_mut(&number) else { return };
        open.times.sent = now;
        open.hashes = block_hashes(&bytes, block_size);
        (open.decode, open.prefill) = (decode, prefill);
        open.reservation = Some(reservation);
        if self.knows_blocks && exact {
            open.tokens = bytes;
            open.model = request.adapter.unwrap_or(request.model);
        }
        self.enqueue(number, first, now);
    }

    /// Gives a request to an engine: its prompt to a prefill endpoint, then the rest to the endpoint that decodes.
    fn enqueue(&mut self, number: u64, member: usize, now: u64) {
        let Some(open) = self.open.get(&number) else { return };
        let only_prompt = open.prefill == Some(member) && !open.is_prefilled;
        let job = Job {
            id: number,
            hashes: Arc::clone(&open.hashes),
            prompt_tokens: open.times.prompt_tokens,
            output_tokens: if only_prompt { 1 } else { open.times.output_tokens },
            is_prefilled: open.is_prefilled,
        };
        if self.members[member].gone.is_some() {
            self.recorder.rejections.lost += 1;
            return self.end(number);
        }
        self.members[member].requests += 1;
        let mut refused = None;
        self.with_engine(member, now, |engine, outputs| refused = engine.enqueue(job, outputs).err());
        match refused {
            Some(EnqueueError::QueueFull) => self.recorder.rejections.engine_queue += 1,
            Some(EnqueueError::TooLong) => self.recorder.rejections.too_long += 1,
            None => return,
        }
        self.end(number);
    }

    /// Removes a request, and its load from the picker's state.
    fn end(&mut self, number: u64) {
        if let Some(OpenRequest { reservation: Some(reservation), .. }) = self.open.remove(&number) {
            self.state.release(reservation);
        }
        self.has_news = true;
    }

    // === engines ===

    /// Brings an engine up to a moment, changes it, and handles what has happened.
    fn with_engine(
        &mut self,
        number: usize,
        now: u64,
        change: impl FnOnce(&mut longboat_engine_model::Engine, &mut Vec<Output>),
    ) {
        let interval = nanos(self.settings.scrape);
        let member = &mut self.members[number];
        if !member.scrape(now, interval)
            && let Some(place) = self.places[number]
        {
            self.candidates[place] = member.snapshot();
        }
        let mut outputs = std::mem::take(&mut member.outputs);
        member.engine.advance(now, &mut outputs);
        change(&mut member.engine, &mut outputs);
        member.generation += 1;
        member.change(now);
        // A member is in the list once, however often it changes before the next scrape.
        if !std::mem::replace(&mut member.is_listed, true) {
            self.unread.push(number);
        }
        let next = member.engine.next().map(|at| (at, Event::Engine(number, member.generation)));
        if let Some((at, event)) = next {
            self.schedule_event(at, event);
        }
        for output in outputs.drain(..) {
            self.handle(number, output, now);
        }
        self.members[number].outputs = outputs;
        let member = &mut self.members[number];
        if member.is_draining
            && member.gone.is_none()
            && member.engine.load().running + member.engine.load().waiting == 0
        {
            member.gone = Some(now);
            let slot = member.endpoint.slot;
            self.forget(slot);
        }
    }

    fn handle(&mut self, member: usize, output: Output, now: u64) {
        match output {
            Output::Started { id, waited_for_memory, cached_tokens, added, evicted } => {
                let Some(open) = self.open.get_mut(&id) else { return };
                if !open.is_prefilled {
                    open.times.started = now;
                    open.times.waited_for_memory = waited_for_memory;
                    open.times.cached_tokens = cached_tokens;
                }
                if self.knows_blocks {
                    let size = self.members[member].engine.parameters().block_size;
                    let events = block_events(open, size, &added, evicted);
                    let (due, slot) =
                        (now + nanos(self.settings.event_delay), self.members[member].endpoint.slot);
                    self.block_events.extend(events.into_iter().map(|event| (due, slot, event)));
                }
            }
            Output::FirstToken(id) => {
                let Some(open) = self.open.get_mut(&id) else { return };
                if open.prefill == Some(member) && !open.is_prefilled {
                    return;
                }
                open.times.first_token = now;
                if let Some(reservation) = &mut open.reservation {
                    self.state.first_chunk(reservation);
                }
                self.has_news = true;
            }
            Output::Finished(id) => {
                let Some(open) = self.open.get_mut(&id) else { return };
                if open.prefill == Some(member) && !open.is_prefilled {
                    open.is_prefilled = true;
                    let decode = open.decode;
                    return self.enqueue(id, decode, now);
                }
                open.times.finished = now;
                let times = open.times;
                self.recorder.answered(&times);
                self.end(id);
            }
        }
    }

    fn apply_block_events(&mut self, now: u64) {
        if self.block_events.front().is_none_or(|(due, ..)| *due > now) {
            return;
        }
        let holdings = self.state.holdings();
        while let Some((_, slot, event)) = self.block_events.pop_front_if(|(due, ..)| *due <= now) {
            for known in &holdings {
                known.update(|index| index.apply(slot.0, "", &event));
            }
        }
    }

    // === the pool ===

    fn add_member(&mut self, group: usize, now: u64) {
        let number = self.members.len();
        let slot = self.slots.take();
        let settings = (group, &self.settings.pool[group]);
        self.members.push(Member::new(number, slot, settings, now, nanos(self.settings.scrape)));
        self.places.push(None);
    }

    /// Lists the candidates again. Done only when the pool changes.
    fn list_candidates(&mut self) {
        self.candidates.clear();
        self.numbers.clear();
        for (number, member) in self.members.iter().enumerate() {
            self.places[number] = member.is_candidate().then_some(self.candidates.len());
            if member.is_candidate() {
                self.candidates.push(member.snapshot());
                self.numbers.push(number);
            }
        }
        let present = self.members.iter().filter(|member| member.gone.is_none()).count();
        self.most_endpoints = self.most_endpoints.max(present);
        self.has_news = true;
    }

    fn change(&mut self, change: PoolChange, now: u64) {
        match change {
            PoolChange::Fail(number) => {
                if self.members.get(number).is_none_or(|member| member.gone.is_some()) {
                    return;
                }
                self.members[number].gone = Some(now);
                // No event of its engine counts any more.
                self.members[number].generation += 1;
                let is_there = |open: &OpenRequest| {
                    let at =
                        if open.is_prefilled { open.decode } else { open.prefill.unwrap_or(open.decode) };
                    open.request.is_none() && at == number
                };
                let mut lost: Vec<u64> =
                    self.open.iter().filter(|(_, open)| is_there(open)).map(|(id, _)| *id).collect();
                // The map has no order, and the order of releases must be the same in every run.
                lost.sort_unstable();
                for id in lost {
                    self.recorder.rejections.lost += 1;
                    self.end(id);
                }
                let slot = self.members[number].endpoint.slot;
                self.forget(slot);
            }
            PoolChange::Replicas(replicas) => {
                let own = |member: &Member| member.group == 0 && member.is_candidate();
                let present: Vec<usize> =
                    (0..self.members.len()).filter(|number| own(&self.members[*number])).collect();
                for _ in present.len()..replicas {
                    self.add_member(0, now);
                }
                for &number in present.iter().skip(replicas) {
                    self.members[number].is_draining = true;
                    // An engine without requests goes at once.
                    self.with_engine(number, now, |_, _| {});
                }
            }
        }
        self.list_candidates();
        if self.flow.enabled {
            self.dispatch(now);
        }
    }

    fn forget(&mut self, slot: Slot) {
        self.block_events.retain(|(_, of, _)| *of != slot);
        self.state.forget(slot);
        self.slots.free(slot);
    }

    fn report(mut self, policy: &Policy, requests: u64) -> Report {
        // Requests that still wait will never be answered.
        self.recorder.rejections.no_endpoint += self.open.len() as u64;
        let end = self.recorder.last();
        let seconds = self.members.iter().map(|member| {
            let until = member.gone.unwrap_or(end).max(member.since);
            let present = Duration::from_nanos(until - member.since).as_secs_f64();
            present * self.settings.pool[member.group].accelerators
        });
        let gpu_seconds = seconds.sum();
        let counts: Vec<u64> = self.members.iter().map(|member| member.requests).collect();
        let mut report =
            self.recorder.report(&policy.name, requests, &counts, self.most_endpoints, gpu_seconds);
        report.plugins = self.plugins.shares();
        report
    }
}

/// The events of an engine whose cache has changed for a request.
fn block_events(
    open: &OpenRequest,
    block_size: usize,
    added: &[std::ops::Range<usize>],
    evicted: Vec<BlockHash>,
) -> Vec<BlockEvent> {
    let mut events = Vec::new();
    if !open.tokens.is_empty() {
        for run in added {
            let bytes = &open.tokens[run.start * block_size * 4..run.end * block_size * 4];
            let tokens =
                bytes.chunks_exact(4).filter_map(|token| Some(u32::from_le_bytes(token.try_into().ok()?)));
            events.push(BlockEvent::Stored(Box::new(Stored {
                hashes: open.hashes[run.clone()].to_vec(),
                parent: run.start.checked_sub(1).map(|before| open.hashes[before]),
                tokens: tokens.collect(),
                block_size,
                medium: GPU.to_owned(),
                lora_name: Some(open.model.clone()).filter(|name| !name.is_empty()),
                ..Stored::default()
            })));
        }
    }
    if !evicted.is_empty() {
        events.push(BlockEvent::Removed { hashes: evicted, medium: GPU.to_owned() });
    }
    events
}

/// Whether some band has a time to live.
fn expires(flow: &longboat_scheduler::flow::Settings) -> bool {
    let bands = flow.bands.values().chain([&flow.default_band, &flow.negative_band]);
    bands.map(|band| band.time_to_live).any(|time| time.usual_ms.is_some() || time.no_endpoint_ms.is_some())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
