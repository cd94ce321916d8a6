//! The queue: bands by priority, flows in each, requests in each flow.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use crate::numbers::float;

use super::{
    eviction::ClosedBand,
    saturation::share,
    service::{FlowService, FlowServices},
    settings::{Fairness, Ordering, Settings},
};

/// Identifies a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// A request that comes to the queue.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Its priority. If no band has this priority, the request waits in band 0.
    pub priority: i32,
    /// The flow that it belongs to. Flows share a band fairly.
    pub flow: &'a str,
    /// Its size in bytes.
    pub bytes: u64,
    /// The requested time to the first token, in milliseconds from now. `None` if the request has no such objective.
    pub within_ms: Option<u64>,
}

/// The queue is full: a limit of requests or bytes is reached, either of the band or of all bands together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("queue at capacity")]
pub struct QueueFull;

/// The used share of the limits for requests and bytes, where 1 is full. `None` if there is no such limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The share of the limit for requests.
    pub requests: Option<f64>,
    /// The share of the limit for bytes.
    pub bytes: Option<f64>,
}

/// The used shares of all limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// The limits for all bands together.
    pub all: Share,
    /// The limits of each band, with its priority, the highest first.
    pub bands: Vec<(i32, Share)>,
}

impl Share {
    fn of(requests: u64, max_requests: Option<u64>, bytes: u64, max_bytes: Option<u64>) -> Self {
        let of_limit = |used, limit: Option<u64>| limit.map(|limit| share(used, float(limit)));
        Self { requests: of_limit(requests, max_requests), bytes: of_limit(bytes, max_bytes) }
    }
}

/// The waiting requests. `T` is the value that the caller needs to continue a request.
#[derive(Debug)]
pub struct Queue<T> {
    settings: Settings,
    bands: BTreeMap<Reverse<i32>, Band<T>>,
    /// The place of each request, in order of arrival.
    index: BTreeMap<Ticket, Position>,
    bytes: u64,
    next: u64,
    cycles: u64,
    attained: FlowServices,
}

#[derive(Debug)]
struct Band<T> {
    /// Whether the settings or an objective still use this priority.
    in_use: bool,
    flows: BTreeMap<Arc<str>, BTreeMap<Key, WaitingRequest<T>>>,
    /// Its requests, in order of arrival.
    arrivals: BTreeSet<Ticket>,
    /// The flow that was served last.
    last: Option<Arc<str>>,
    requests: u64,
    bytes: u64,
}

/// The order inside a flow: deadline, then arrival.
type Key = (u64, Ticket);

#[derive(Debug)]
struct WaitingRequest<T> {
    bytes: u64,
    item: T,
}

#[derive(Debug, Clone)]
struct Position {
    band: i32,
    flow: Arc<str>,
    key: Key,
    since: u64,
}

impl<T> Band<T> {
    fn new() -> Self {
        Self {
            in_use: true,
            flows: BTreeMap::new(),
            arrivals: BTreeSet::new(),
            last: None,
            requests: 0,
            bytes: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Creates an empty queue with the configured bands and band 0.
    pub fn new(settings: Settings) -> Self {
        let mut queue = Self {
            settings,
            bands: BTreeMap::new(),
            index: BTreeMap::new(),
            bytes: 0,
            next: 0,
            cycles: 0,
            attained: FlowServices::default(),
        };
        queue.provision([]);
        queue
    }

    /// Sets the bands: those of the settings, band 0, and those of these priorities. A band that is no longer used is removed
    /// once it is empty.
    pub fn provision(&mut self, priorities: impl IntoIterator<Item = i32>) {
        for band in self.bands.values_mut() {
            band.in_use = false;
        }
        let configured: Vec<i32> = self.settings.bands.keys().copied().collect();
        for priority in configured.into_iter().chain([0]).chain(priorities) {
            self.bands.entry(Reverse(priority)).or_insert_with(Band::new).in_use = true;
        }
        // Requests in a band that is no longer used keep their place until they have left.
        self.bands.retain(|_, band| band.in_use || band.requests > 0);
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    #[cfg(test)]
    pub(super) fn remembered_flows(&self) -> usize {
        self.attained.len()
    }

    /// The bytes of all requests that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the used share of each limit.
    pub fn shares(&self) -> Shares {
        let waiting = u64::try_from(self.index.len()).unwrap_or(u64::MAX);
        let band = |(Reverse(priority), band): (&Reverse<i32>, &Band<T>)| {
            let settings = self.settings.band(*priority);
            let used = Share::of(band.requests, settings.max_requests, band.bytes, settings.max_bytes);
            (*priority, used)
        };
        Shares {
            all: Share::of(waiting, self.settings.max_requests, self.bytes, self.settings.max_bytes),
            bands: self.bands.iter().map(band).collect(),
        }
    }

    /// Adds a request to the queue.
    ///
    /// # Errors
    /// [`QueueFull`] if a limit is reached.
    pub fn push(&mut self, arrival: Arrival<'_>, item: T, now: u64) -> Result<Ticket, QueueFull> {
        let known = self.bands.get(&Reverse(arrival.priority)).is_some_and(|band| band.in_use);
        // A priority that is not in use any more falls back to band 0, which always exists.
        let priority = if known { arrival.priority } else { 0 };
        let settings = self.settings.band(priority);
        let waiting = u64::try_from(self.index.len()).unwrap_or(u64::MAX);
        let over = |held: u64, more: u64, limit: Option<u64>| {
            limit.is_some_and(|limit| held.saturating_add(more) > limit)
        };
        let band = self.bands.entry(Reverse(priority)).or_insert_with(Band::new);
        if over(waiting, 1, self.settings.max_requests)
            || over(self.bytes, arrival.bytes, self.settings.max_bytes)
            || over(band.requests, 1, settings.max_requests)
            || over(band.bytes, arrival.bytes, settings.max_bytes)
        {
            return Err(QueueFull);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let deadline = match settings.ordering {
            // Tickets are numbered by arrival, and order requests with the same deadline.
            Ordering::FirstCome => 0,
            Ordering::EarliestDeadline => {
                settings.time_to_live.usual_ms.map_or(u64::MAX, |ttl| now.saturating_add(ttl))
            }
            Ordering::SloDeadline => arrival.within_ms.map_or(u64::MAX, |within| now.saturating_add(within)),
        };
        // Under global-strict, all flows of a band share one queue.
        let flow = match settings.fairness {
            Fairness::GlobalStrict => Arc::from(""),
            Fairness::RoundRobin | Fairness::LeastService(_) => band
                .flows
                // A flow that already waits shares its name, so its further requests allocate none.
                .get_key_value(arrival.flow)
                .map_or_else(|| Arc::from(arrival.flow), |(flow, _)| Arc::clone(flow)),
        };
        let key = (deadline, ticket);
        let waiting = WaitingRequest { bytes: arrival.bytes, item };
        band.flows.entry(Arc::clone(&flow)).or_default().insert(key, waiting);
        band.arrivals.insert(ticket);
        band.requests += 1;
        band.bytes += arrival.bytes;
        self.bytes += arrival.bytes;
        self.index.insert(ticket, Position { band: priority, flow, key, since: now });
        Ok(ticket)
    }

    /// Runs one dispatch cycle. Returns the next request, unless the pool is too saturated for it. A band that must wait
    /// blocks all lower bands.
    pub fn pop(&mut self, saturation: f64, now: u64) -> Option<T> {
        // Counted even if nothing is dispatched: a soft ceiling opens its band in every n-th cycle.
        self.cycles += 1;
        let priorities: Vec<i32> = self.bands.keys().map(|Reverse(priority)| *priority).collect();
        let limit = self.settings.usage_limit;
        for (index, (Reverse(priority), band)) in self.bands.iter_mut().enumerate() {
            // The test is `saturation < ceiling`, so that a NaN saturation closes every band.
            let open = saturation < limit.ceiling(saturation, &priorities, index, self.cycles);
            if !open {
                return None;
            }
            let ticket = match self.settings.band(*priority).fairness {
                Fairness::LeastService(policy) => {
                    let first = |(_, ticket): &Key| self.index.get(ticket).map_or(now, |place| place.since);
                    let heads = band.flows.iter().filter_map(|(flow, requests)| {
                        requests.first_key_value().map(|(key, _)| (flow, first(key)))
                    });
                    let flow = self.attained.next(&policy, heads, now);
                    let ticket = flow
                        .and_then(|flow| band.flows.get(flow)?.first_key_value())
                        .map(|((_, ticket), _)| *ticket);
                    if let Some(place) = ticket.and_then(|ticket| self.index.get(&ticket)) {
                        self.attained.record_dispatch(&place.flow, now.saturating_sub(place.since), now);
                    }
                    ticket
                }
                Fairness::GlobalStrict | Fairness::RoundRobin => band.next(),
            };
            // An empty band does not block lower ones.
            if let Some(ticket) = ticket {
                return self.cancel(ticket);
            }
        }
        None
    }

    /// Returns the highest band whose requests wait because the pool is too saturated. Skips a band with a ceiling of 0,
    /// because that band is closed at any saturation.
    pub fn blocked(&self, saturation: f64) -> Option<ClosedBand> {
        let priorities: Vec<i32> = self.bands.keys().map(|Reverse(priority)| *priority).collect();
        self.bands.iter().enumerate().find_map(|(index, (Reverse(priority), band))| {
            let ceiling = self.settings.usage_limit.ceiling(saturation, &priorities, index, self.cycles);
            let closed = ceiling > 0.0 && saturation >= ceiling;
            (closed && band.requests > 0).then_some(ClosedBand { priority: *priority, ceiling })
        })
    }

    /// Records that a request of this flow was answered, with these tokens of prompt and response.
    pub fn served(&mut self, flow: &str, tokens: (u64, u64), now: u64) {
        if let Some(policy) = self.settings.least_service() {
            self.attained.add(&policy, flow, tokens, now);
        }
    }

    /// Returns the service of each flow. Empty if no fairness policy uses it.
    pub fn service(&self, now: u64) -> Vec<(Arc<str>, FlowService)> {
        self.settings.least_service().map_or_else(Vec::new, |policy| self.attained.all(&policy, now))
    }

    /// Removes and returns a request that has waited too long, if there is one.
    pub fn expired(&mut self, now: u64, has_endpoints: bool) -> Option<T> {
        let expired = self.bands.iter().find_map(|(Reverse(priority), band)| {
            let ttl = self.settings.band(*priority).time_to_live.now(has_endpoints)?;
            // All requests of a band have the same time to live: if the oldest is in time, all are.
            let oldest = *band.arrivals.first()?;
            let since = self.index.get(&oldest)?.since;
            (now.saturating_sub(since) >= ttl).then_some(oldest)
        });
        self.cancel(expired?)
    }

    /// Removes any request, for shutdown.
    pub fn take_any(&mut self) -> Option<T> {
        let (&oldest, _) = self.index.first_key_value()?;
        self.cancel(oldest)
    }

    /// Removes a request, if it still waits.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<T> {
        let place = self.index.remove(&ticket)?;
        let band = self.bands.get_mut(&Reverse(place.band))?;
        let flow = band.flows.get_mut(&place.flow)?;
        let waiting = flow.remove(&place.key)?;
        if flow.is_empty() {
            band.flows.remove(&place.flow);
        }
        band.arrivals.remove(&ticket);
        band.requests -= 1;
        band.bytes -= waiting.bytes;
        self.bytes -= waiting.bytes;
        if !band.in_use && band.requests == 0 {
            self.bands.remove(&Reverse(place.band));
        }
        Some(waiting.item)
    }
}

impl<T> Band<T> {
    /// Returns the first request of the flow after the flow that was served last. The flows form a ring.
    fn next(&mut self) -> Option<Ticket> {
        let after = self
            .last
            .as_ref()
            .and_then(|last| self.flows.range::<str, _>((Excluded(last.as_ref()), Unbounded)).next());
        let (flow, requests) = after.or_else(|| self.flows.first_key_value())?;
        let (&(_, ticket), _) = requests.first_key_value()?;
        self.last = Some(Arc::clone(flow));
        Some(ticket)
    }
}
