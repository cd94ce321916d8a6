//! The pickers: they queue requests, choose endpoints, and tell each other what they have chosen.

use std::{sync::Arc, time::Duration};

use longboat_api::wake_queue;
use longboat_engine_model::split_mix::mix;
use longboat_scheduler::{
    Decision, HeaderLookup, Prompt, Request, Reservation, ScheduleError, Scheduler, Slot, State,
    flow::{Arrival, Queue, Settings as FlowSettings, UsageLimit},
};
use rand::{SeedableRng as _, rngs::StdRng};

use super::{Event, OpenRequest, PickerSettings, PromptTokens, Sharing, World, nanos};
use crate::{
    autoscaler::AutoscalerSettings, pool::PoolEntry, rejection::Refusal, request_times::RequestTimes,
    trace::TraceRequest,
};

/// How often the dispatcher of a picker looks whether the pool has room, in nanoseconds.
const DISPATCH_INTERVAL: u64 = 1_000_000;
const MILLISECOND: u64 = 1_000_000;
/// The bytes of a request besides its prompt, for limits of the picker's queue.
const REQUEST_BYTES: u64 = 200;

/// A picker.
pub(super) struct Picker {
    /// The place of its state: what it knows of requests and prefixes.
    state: usize,
    queue: Queue<u64>,
    pub(super) has_dispatch: bool,
    /// Whether something has happened since its dispatcher last looked.
    is_woken: bool,
    random: StdRng,
}

/// What the other pickers learn from a picker.
pub(super) enum Notice {
    /// It has sent the request with this number.
    Sent(u64, usize, Box<Decision>),
    /// The request has its first token.
    FirstToken(u64),
    /// The load of a request in a state has ended.
    Ended(usize, Reservation),
}

struct SessionHeader<'a>(Option<&'a str>);

impl HeaderLookup for SessionHeader<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.filter(|_| name == "x-session-id")
    }
}

/// Creates the pickers and their states.
pub(super) fn pickers(
    settings: PickerSettings,
    scheduler: &Scheduler,
    flow: &FlowSettings,
    seed: u64,
) -> (Vec<Picker>, Vec<State>) {
    let is_one_state = settings.sharing == Sharing::After(Duration::ZERO);
    let picker = |index: usize| Picker {
        state: if is_one_state { 0 } else { index },
        queue: Queue::new(flow.clone()),
        has_dispatch: false,
        is_woken: true,
        random: StdRng::seed_from_u64(seed.wrapping_add(index as u64)),
    };
    let states = if is_one_state { 1 } else { settings.number };
    ((0..settings.number).map(picker).collect(), (0..states).map(|_| scheduler.state()).collect())
}

/// Whether some band has a time to live.
pub(super) fn expires(flow: &FlowSettings) -> bool {
    let bands = flow.bands.values().chain([&flow.default_band, &flow.negative_band]);
    bands.map(|band| band.time_to_live).any(|time| time.usual_ms.is_some() || time.no_endpoint_ms.is_some())
}

/// The bytes of a request in a queue.
fn bytes(tokens: &PromptTokens) -> u64 {
    tokens.bytes.len() as u64 + REQUEST_BYTES
}

impl World<'_> {
    /// Requests that wait in the queues of pickers and of the gateway.
    pub(super) fn queued(&self) -> usize {
        self.waking.len() + self.pickers.iter().map(|picker| picker.queue.len()).sum::<usize>()
    }

    /// Their bytes.
    pub(super) fn queued_bytes(&self) -> u64 {
        let waking = self.waking.iter().filter_map(|number| self.open.get(number)?.request.as_ref());
        let waking: u64 = waking.map(|(_, tokens)| bytes(tokens)).sum();
        waking + self.pickers.iter().map(|picker| picker.queue.bytes()).sum::<u64>()
    }

    pub(super) fn wake_dispatchers(&mut self) {
        self.pickers.iter_mut().for_each(|picker| picker.is_woken = true);
    }

    pub(super) fn forget_in_pickers(&mut self, slot: Slot) {
        // What is on its way may be about the endpoint. It is lost, as if a connection broke.
        self.notices.retain(|(_, notice)| !matches!(notice, Notice::Sent(..)));
        self.states.iter_mut().for_each(|state| state.forget(slot));
    }

    pub(super) fn arrive(&mut self, number: u64, request: TraceRequest, now: u64) {
        self.last_progress = now;
        self.recorder.arrival(now, self.open.len(), self.candidates.len());
        // Gateways spread requests without looking at them.
        let pickers = self.pickers.len() as u64;
        let picker =
            // `mix(number)` itself chooses the requests of the sample, which would all be those of a few pickers.
            if pickers == 1 { 0 } else { usize::try_from(mix(!number) % pickers).unwrap_or_default() };
        let tokens = self.conversations.tokens(&request, number);
        let prompt_tokens = tokens.bytes.len().div_ceil(4);
        self.sampler.arrive(number, &request, prompt_tokens);
        let times = RequestTimes {
            arrived: now,
            output_tokens: request.output_tokens,
            prompt_tokens,
            ..RequestTimes::default()
        };
        let open = OpenRequest {
            times,
            request: Some((request, tokens)),
            picker,
            hashes: Arc::default(),
            decode: 0,
            prefill: None,
            is_prefilled: false,
            reservation: None,
            copies: Vec::new(),
            tokens: Vec::new(),
            model: String::new(),
        };
        self.open.insert(number, open);
        let goes_to_zero = self.settings.autoscaler.as_ref().is_some_and(AutoscalerSettings::scales_to_zero);
        if goes_to_zero && self.candidates.is_empty() {
            self.expire_waking(now);
            if self.waking.len() < wake_queue::MAX_REQUESTS {
                self.waking.push_back(number);
            } else {
                self.refuse(number, Refusal::NoEndpoint);
            }
            return;
        }
        self.admit(number, now);
    }

    /// Hands the requests that have waited for the first endpoint to their pickers.
    pub(super) fn wake(&mut self, now: u64) {
        if self.candidates.is_empty() {
            return;
        }
        self.expire_waking(now);
        for number in std::mem::take(&mut self.waking) {
            self.admit(number, now);
        }
    }

    /// Refuses the requests that have waited for the first endpoint as long as the gateway lets them.
    pub(super) fn expire_waking(&mut self, now: u64) {
        let has_waited =
            |open: &OpenRequest| now.saturating_sub(open.times.arrived) > nanos(wake_queue::TIMEOUT);
        // They are in the order of their arrival.
        while let Some(&number) = self.waking.front()
            && self.open.get(&number).is_none_or(has_waited)
        {
            self.waking.pop_front();
            self.refuse(number, Refusal::NoEndpoint);
        }
    }

    /// Lets the picker of a request queue it or choose its endpoint.
    fn admit(&mut self, number: u64, now: u64) {
        let Some(OpenRequest { picker, request: Some((request, tokens)), .. }) = self.open.get(&number)
        else {
            return;
        };
        let (picker, priority) = (*picker, request.priority);
        let size = bytes(tokens);
        if !self.flow.enabled {
            // Without flow control, llm-d's picker drops what may be dropped if the pool is full, and never lets anything wait.
            if priority < 0 && self.saturation(picker, now) >= 1.0 {
                return self.refuse(number, Refusal::Saturated);
            }
            return self.send(number, now);
        }
        let queue = &mut self.pickers[picker].queue;
        queue.provision([priority]);
        // Traces name no flow, so the requests of a band take turns in the order of their arrival.
        let arrival = Arrival { priority, flow: "", bytes: size, within_ms: None };
        if queue.push(arrival, number, now / MILLISECOND).is_err() {
            return self.refuse(number, Refusal::QueueFull);
        }
        self.pickers[picker].is_woken = true;
        self.dispatch(picker, now);
    }

    /// Lets every picker look whether there is room.
    pub(super) fn dispatch_all(&mut self, now: u64) {
        if self.flow.enabled {
            (0..self.pickers.len()).for_each(|picker| self.dispatch(picker, now));
        }
    }

    /// Sends the waiting requests for which the pool has room, and drops those that have waited too long.
    pub(super) fn dispatch(&mut self, picker: usize, now: u64) {
        let has_endpoints = !self.candidates.is_empty();
        while let Some(number) = self.pickers[picker].queue.expired(now / MILLISECOND, has_endpoints) {
            self.refuse(number, Refusal::Expired);
        }
        // Without news the saturation is the same, except for metrics that a scrape has read meanwhile. One policy lets a
        // request go in every so many cycles.
        let counts_cycles = self.flow.usage_limit == UsageLimit::SoftReflective;
        if self.pickers[picker].is_woken || !self.unread.is_empty() || counts_cycles {
            self.pickers[picker].is_woken = false;
            while !self.pickers[picker].queue.is_empty() {
                let saturation = self.saturation(picker, now);
                let Some(number) = self.pickers[picker].queue.pop(saturation, now / MILLISECOND) else {
                    break;
                };
                self.send(number, now);
            }
        }
        // If nothing is computed and nothing expires, only an arrival or a change of the pool can help. Both dispatch.
        let can_change = self.open.len() > self.queued() || !self.unread.is_empty() || self.expires;
        let own = &mut self.pickers[picker];
        if !own.queue.is_empty() && !own.has_dispatch && can_change {
            own.has_dispatch = true;
            self.schedule_event(now + DISPATCH_INTERVAL, Event::Dispatch(picker));
        }
    }

    fn saturation(&mut self, picker: usize, now: u64) -> f64 {
        self.scrape(now);
        self.deliver_notices(now);
        let age = self.settings.scrape;
        let entries: Vec<PoolEntry<'_>> =
            self.candidates.iter().map(|endpoint| PoolEntry(endpoint, age)).collect();
        let entries: Vec<&PoolEntry<'_>> = entries.iter().collect();
        // Requests are sent at the moment at which they are admitted, so none is in between.
        let state = &self.states[self.pickers[picker].state];
        self.flow.saturation(state, &entries, &|| 0)
    }

    /// Lets the picker choose, and sends the request to the chosen engine.
    fn send(&mut self, number: u64, now: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let picker = open.picker;
        let Some((request, mut tokens)) = open.request.take() else { return };
        self.scrape(now);
        self.apply_block_events(now);
        self.deliver_notices(now);
        let exact = request.prompt.is_exact();
        let mut bytes = std::mem::take(&mut tokens.bytes);
        let limit = if exact { bytes.len() } else { self.scheduler.text_limit().min(bytes.len()) };
        // The end of the prompt comes back after the decision: the engine computes all of it.
        let rest = bytes.split_off(limit);
        let prompts = [Prompt { bytes, cut: rest.len() }];
        let headers = SessionHeader(request.session.as_deref());
        let scheduler_request = Request {
            id: "",
            model: request.adapter.as_deref().unwrap_or(&request.model),
            cache_salt: "",
            prompts: &prompts,
            exact,
            multimodal: false,
            priority: request.priority,
            predictions: &[],
            burst_endpoint: None,
            media: &[],
            max_output_tokens: None,
            headers: &headers,
        };
        self.decisions += 1;
        let every = self.settings.explain_every;
        let is_counted = every > 0 && self.decisions.is_multiple_of(every);
        let is_sampled = self.sampler.has(number);
        let scheduler = if is_counted || is_sampled { &self.tracing } else { &self.scheduler };
        let now_ms = now / MILLISECOND;
        let Picker { state, random, .. } = &mut self.pickers[picker];
        let state = &mut self.states[*state];
        let outcome = scheduler.schedule(state, &scheduler_request, &self.candidates, now_ms, random);
        let [Prompt { mut bytes, .. }] = prompts;
        bytes.extend(rest);
        tokens.bytes = bytes;
        let decision = match outcome {
            Ok(decision) => decision,
            Err(error) => {
                let refusal = match error {
                    ScheduleError::NotAdmitted | ScheduleError::TooSlow => Refusal::NotAdmitted,
                    _ => Refusal::NoEndpoint,
                };
                return self.refuse(number, refusal);
            }
        };
        // Both schedulers have the same plugins, so either may commit what the other decided.
        let reservation = self.scheduler.commit(state, &decision);
        if is_counted {
            self.plugins.add(&decision, self.candidates.len());
        }
        let stages = decision.stages();
        let decode = stages.decode.map_or(0, |place| self.numbers[place]);
        let prefill = stages.prefill.map(|place| self.numbers[place]).filter(|prefill| *prefill != decode);
        let first = prefill.unwrap_or(decode);
        let block_size = self.members[first].engine.parameters().block_size;
        let hashes = tokens.hashes(block_size);
        if is_sampled {
            let pick = self.sampled_pick(&decision, first, &hashes);
            self.sampler.sent(number, pick);
        }
        let Some(open) = self.open.get_mut(&number) else { return };
        open.times.sent = now;
        open.hashes = hashes;
        (open.decode, open.prefill) = (decode, prefill);
        open.reservation = Some(reservation);
        if self.knows_blocks && exact {
            open.tokens.clone_from(&tokens.bytes);
            open.model = request.adapter.unwrap_or(request.model);
        }
        self.conversations.keep(request.session, request.prompt, tokens);
        self.notify_others(now, || Notice::Sent(number, picker, Box::new(decision)));
        self.enqueue(number, first, now);
    }

    /// Removes a request, and its load from the states of the pickers.
    pub(super) fn end(&mut self, number: u64, now: u64) {
        if let Some(OpenRequest { reservation: Some(reservation), picker, copies, .. }) =
            self.open.remove(&number)
        {
            let state = self.pickers[picker].state;
            self.states[state].release(reservation);
            for (other, copy) in copies {
                self.notify_others(now, || Notice::Ended(other, copy));
            }
        }
        self.wake_dispatchers();
    }

    /// Records that the first token of a request has come.
    pub(super) fn note_first_token(&mut self, number: u64, now: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        if let Some(reservation) = &mut open.reservation {
            let state = self.pickers[open.picker].state;
            self.states[state].first_chunk(reservation, Some(now / MILLISECOND));
        }
        self.notify_others(now, || Notice::FirstToken(number));
        self.wake_dispatchers();
    }

    /// Sends a notice to the other pickers, if pickers share what they know.
    fn notify_others(&mut self, now: u64, notice: impl FnOnce() -> Notice) {
        match self.settings.pickers.sharing {
            Sharing::After(delay) if !delay.is_zero() && self.pickers.len() > 1 => {
                self.notices.push_back((now.saturating_add(nanos(delay)), notice()));
            }
            Sharing::After(_) | Sharing::Nothing => {}
        }
    }

    fn deliver_notices(&mut self, now: u64) {
        // All notices take the same time, so they are in the order of their arrival.
        while let Some((_, notice)) = self.notices.pop_front_if(|(due, _)| *due <= now) {
            match notice {
                Notice::Sent(number, from, decision) => {
                    let from = self.pickers[from].state;
                    for (index, state) in
                        self.states.iter_mut().enumerate().filter(|(index, _)| *index != from)
                    {
                        let copy = self.scheduler.commit(state, &decision);
                        match self.open.get_mut(&number) {
                            Some(open) => open.copies.push((index, copy)),
                            // The request has ended meanwhile.
                            None => state.release(copy),
                        }
                    }
                }
                Notice::FirstToken(number) => {
                    let Some(open) = self.open.get_mut(&number) else { continue };
                    for (index, copy) in &mut open.copies {
                        // Pickers share what is in flight, not what they have measured.
                        self.states[*index].first_chunk(copy, None);
                    }
                }
                Notice::Ended(index, copy) => self.states[index].release(copy),
            }
        }
    }

    fn apply_block_events(&mut self, now: u64) {
        if self.block_events.front().is_none_or(|(due, ..)| *due > now) {
            return;
        }
        let holdings: Vec<_> = self.states.iter().flat_map(State::holdings).collect();
        while let Some((_, slot, event)) = self.block_events.pop_front_if(|(due, ..)| *due <= now) {
            for known in &holdings {
                known.update(|index| index.apply(slot.0, "", &event));
            }
        }
    }
}
