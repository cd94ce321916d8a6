//! The scheduler: the profiles of a configuration, and the course of a pick.

mod build;
mod describe;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use rand::RngCore;

use crate::{
    burst::BurstSettings,
    context::{Candidate, Context},
    decision::{Decision, FilterTrace, Learner, ProfileRun, Remember, ScorerTrace},
    endpoint::{Endpoint, Snapshot},
    error::ScheduleError,
    inflight::Reservation,
    latency::{Features, LatencyObjective, LatencySettings},
    media::{Encoded, EncoderLookup, Sent},
    pairing,
    plugin::{Admitter, Affinity, Filter, Picker, ProfileHandler, Scorer},
    prefix::Matches,
    prefixes::PrefixSource,
    producers::{
        attribute_reporter::Report,
        p2p_source::{self, PeerSource},
        tokens::TokenizerSettings,
    },
    request::Request,
    sessions::{self, Agents},
    state::State,
    stopwatch::{Role, Stopwatch, Timed, Watched, excluded, finds, learns, timed},
};

/// How to build a scheduler.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether alpha plugins may be declared.
    pub allow_experimental: bool,
    /// Whether decisions contain the candidates that each filter kept and the scores of each scorer.
    pub trace: bool,
}

/// The plugin that decides which profiles run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handler {
    /// Its name.
    pub name: String,
    /// Its type.
    pub plugin_type: String,
}

/// Picks endpoints by a configuration.
pub struct Scheduler {
    options: Options,
    profiles: Vec<Profile>,
    /// The type of each declared plugin.
    types: BTreeMap<String, String>,
    handler: Arc<dyn ProfileHandler>,
    handler_plugin: Handler,
    admitters: Vec<(String, Arc<dyn Admitter>)>,
    affinities: Vec<Affinity>,
    peer_sources: Vec<PeerSource>,
    prefixes: Vec<(String, PrefixSource)>,
    tokenizer: Option<TokenizerSettings>,
    idle: Vec<(String, usize, usize)>,
    sessions: usize,
    encoder_caches: Vec<(Arc<str>, usize)>,
    latency: Option<LatencySettings>,
    agents: Option<Agents>,
    tells_served: bool,
    reports: Vec<Report>,
    /// The times of prefix producers, and of producers of encoder caches.
    watched_prefixes: Vec<Watched>,
    watched_encoders: Vec<Watched>,
    /// The times of the profile handler, without the profiles that it runs.
    watched_handler: Option<Arc<dyn Stopwatch>>,
    /// The names of the declared producers of loads.
    loads: Vec<String>,
}

struct Profile {
    name: String,
    filters: Vec<(String, Arc<dyn Filter>)>,
    scorers: Vec<WeightedScorer>,
    picker: Arc<dyn Picker>,
    /// The picker's name. `None` for the default picker.
    picker_name: Option<String>,
}

struct WeightedScorer {
    name: String,
    weight: f64,
    scorer: Arc<dyn Scorer>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let profiles: Vec<_> = self.profiles.iter().map(|profile| &profile.name).collect();
        f.debug_struct("Scheduler")
            .field("options", &self.options)
            .field("profiles", &profiles)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Times the work of the profile handler, filters, scorers, pickers, admitters and producers from now on. `watch` makes the stopwatch for a plugin in a role; a plugin
    /// that several profiles use gets one for each.
    pub fn time_plugins(&mut self, watch: impl Fn(Role) -> Arc<dyn Stopwatch>) {
        let watch = |extension_point, name: &str, plugin_type: &str| {
            watch(Role { extension_point, plugin_type: plugin_type.to_owned(), plugin_name: name.to_owned() })
        };
        self.watched_handler =
            Some(watch("ProfilePicker", &self.handler_plugin.name, &self.handler_plugin.plugin_type));
        let types = &self.types;
        let watch = |extension_point, name: &str| {
            watch(extension_point, name, types.get(name).map_or(name, String::as_str))
        };
        for (name, admitter) in &mut self.admitters {
            *admitter = Arc::new(Timed { plugin: Arc::clone(admitter), watch: watch("Admission", name) });
        }
        let producer =
            |name: &str| Watched { finds: watch("DataProducer", name), learns: watch("PreRequest", name) };
        self.watched_prefixes = self.prefixes.iter().map(|(name, _)| producer(name)).collect();
        self.watched_encoders = self.encoder_caches.iter().map(|(name, _)| producer(name)).collect();
        for profile in &mut self.profiles {
            for (name, filter) in &mut profile.filters {
                *filter = Arc::new(Timed { plugin: Arc::clone(filter), watch: watch("Filter", name) });
            }
            for weighted in &mut profile.scorers {
                let plugin = Arc::clone(&weighted.scorer);
                weighted.scorer = Arc::new(Timed { plugin, watch: watch("Scorer", &weighted.name) });
            }
            let name = profile.picker_name.as_deref().unwrap_or("max-score-picker");
            let plugin = Arc::clone(&profile.picker);
            profile.picker = Arc::new(Timed { plugin, watch: watch("Picker", name) });
        }
    }

    /// Creates an empty state for this scheduler.
    pub fn state(&self) -> State {
        let idle: Vec<usize> = self.idle.iter().map(|&(_, capacity, _)| capacity).collect();
        let prefixes: Vec<_> = self.prefixes.iter().map(|(_, settings)| settings.clone()).collect();
        let encoder_caches: Vec<usize> = self.encoder_caches.iter().map(|&(_, items)| items).collect();
        State::new(&prefixes, &idle, self.sessions, &encoder_caches)
    }

    /// The most bytes of a prompt's text that are read, from its start. For tokens there is no limit.
    pub fn text_limit(&self) -> usize {
        self.prefixes.iter().map(|(_, source)| source.text_limit()).max().unwrap_or(0)
    }

    /// Whether a plugin uses images, audio and videos.
    pub fn looks_at_media(&self) -> bool {
        !self.encoder_caches.is_empty()
    }

    /// The tokenizer that must be called for the tokens of prompts before a request is scheduled, if there is one.
    pub fn tokenizer(&self) -> Option<&TokenizerSettings> {
        self.tokenizer.as_ref()
    }

    /// The plugin that decides which profiles run.
    pub fn handler(&self) -> &Handler {
        &self.handler_plugin
    }

    /// Returns the name and the type of each declared plugin.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        self.types.iter().map(|(name, plugin_type)| (name.as_str(), plugin_type.as_str()))
    }

    /// Returns the name and the type of each prefix producer.
    pub fn prefix_producers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.prefixes
            .iter()
            .map(|(name, _)| (name.as_str(), self.types.get(name).map_or(name.as_str(), String::as_str)))
    }

    /// Whether a prefix producer is told by engines which blocks they hold.
    pub fn knows_blocks(&self) -> bool {
        self.prefixes.iter().any(|(_, source)| matches!(source, PrefixSource::Told(_)))
    }

    /// The names of the producers of loads. Loads are counted even if none is declared.
    pub fn load_producers(&self) -> &[String] {
        &self.loads
    }

    /// Whether a response header names the endpoint that served.
    pub fn tells_served(&self) -> bool {
        self.tells_served
    }

    /// The reports about each response to the proxy.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// The headers in which agents name their sessions, if agent sessions are used as flows.
    pub fn agents(&self) -> Option<&Agents> {
        self.agents.as_ref()
    }

    /// The settings of the latency predictor, if one is used.
    pub fn latency(&self) -> Option<&LatencySettings> {
        self.latency.as_ref()
    }

    /// How requests that arrive together are gathered before they are scheduled, if they are.
    pub fn burst(&self) -> Option<&BurstSettings> {
        self.prefixes.iter().find_map(|(_, source)| match source {
            PrefixSource::Planned(settings) => Some(settings),
            PrefixSource::Guessed(_) | PrefixSource::Told(_) => None,
        })
    }

    /// Returns the features of a request on each candidate, in their order. Empty if no predictions are requested.
    pub fn features(
        &self,
        state: &State,
        request: &Request<'_>,
        candidates: &[Snapshot],
        now: u64,
    ) -> Vec<Features> {
        let Some(latency) = &self.latency else { return Vec::new() };
        let known = state.prefixes.get(latency.prefix);
        known.map_or_else(Vec::new, |known| {
            latency.features(state, request, candidates, &known.matches(request, candidates, now))
        })
    }

    /// Describes the state of the plugins for people, by the plugin's name: how many prompt prefixes each endpoint holds, the
    /// order in which endpoints took cold requests, the number of sessions per endpoint, and the load in flight.
    pub fn describe(&self, state: &State, endpoints: &[&Arc<Endpoint>], now: u64) -> serde_json::Value {
        describe::describe(&self.prefixes, &self.idle, &self.encoder_caches, state, endpoints, now)
    }
}

// === picking ===

impl Scheduler {
    /// Picks an endpoint for a request. The state does not change until the decision is committed. `now` is in milliseconds
    /// since any fixed moment.
    pub fn schedule(
        &self,
        state: &State,
        request: &Request<'_>,
        candidates: &[Snapshot],
        now: u64,
        random: &mut dyn RngCore,
    ) -> Result<Decision, ScheduleError> {
        if candidates.is_empty() {
            return Err(ScheduleError::NoCandidates);
        }
        let prefixes: Vec<_> = state
            .prefixes
            .iter()
            .enumerate()
            .map(|(index, known)| {
                finds(self.watched_prefixes.get(index), || known.matches(request, candidates, now))
            })
            .collect();
        let outlooks = match &self.latency {
            Some(latency) if !request.predictions.is_empty() => latency.outlooks(state, request, candidates),
            _ => Vec::new(),
        };
        let encoded: Vec<Encoded> = state
            .encoder_caches
            .iter()
            .enumerate()
            .map(|(index, caches)| {
                finds(self.watched_encoders.get(index), || caches.look(request.media, candidates))
            })
            .collect();
        let context = Context {
            request,
            candidates,
            state,
            prefixes: &prefixes,
            encoded: &encoded,
            outlooks: &outlooks,
            peer: Cell::new(None),
            now,
            random: RefCell::new(random),
        };
        for (_, admitter) in &self.admitters {
            admitter.admit(&context)?;
        }
        let mut run = Run { scheduler: self, context: &context, runs: Vec::new() };
        let mut picked = timed(self.watched_handler.as_ref(), || self.handler.run(&mut run))?;
        let runs = run.runs;
        if !self.peer_sources.is_empty() {
            let find = |source: &PeerSource| source.find(&context, &runs, picked.primary);
            match self.peer_sources.iter().find_map(find) {
                Some(peer) => picked.set.push((p2p_source::HEADER, peer)),
                // A header that the client sends itself would reach the model server, so it is removed.
                None => picked.remove.push(p2p_source::HEADER),
            }
        }
        let primary = &runs[picked.primary];
        let destination = picked.destination.unwrap_or_else(|| {
            primary.targets.iter().map(|&target| candidates[target].endpoint.host_port.clone()).collect()
        });
        let (response_headers, remember) = self.affinities(&context, &runs, picked.primary);
        let learners = runs
            .iter()
            .enumerate()
            .filter(|(index, run)| *index == picked.primary || run.name == PREFILL)
            .map(|(_, run)| {
                let target = &candidates[run.targets[0]];
                Learner { slot: target.endpoint.slot, metrics: Arc::clone(&target.metrics) }
            })
            .collect();
        let tokens = request.tokens() as u64;
        let reserve = runs
            .iter()
            .map(|run| {
                let target = run.targets[0];
                let cached = Matches::cached(&prefixes).map_or(0, |matches| {
                    u64::from(matches.matched(target)) * u64::from(matches.block_tokens())
                });
                (candidates[target].endpoint.slot, run.name == PREFILL, tokens.saturating_sub(cached))
            })
            .collect();
        Ok(Decision {
            primary: picked.primary,
            destination,
            set_headers: picked.set,
            remove_headers: picked.remove,
            response_headers,
            encoder_lookups: self.encoder_lookups(request, encoded),
            sent: self.sent_media(request, candidates, &runs[picked.primary]),
            runs,
            remember,
            prefixes,
            now,
            learners,
            reserve,
            flow: None,
            tpot_ms: if self.latency.is_some() { LatencyObjective::of(request.headers).tpot_ms } else { 0.0 },
        })
    }

    fn encoder_lookups(&self, request: &Request<'_>, encoded: Vec<Encoded>) -> Vec<EncoderLookup> {
        if request.media.is_empty() {
            return Vec::new();
        }
        let lookups = self.encoder_caches.iter().zip(encoded);
        lookups.map(|((name, _), encoded)| EncoderLookup { plugin: Arc::clone(name), encoded }).collect()
    }

    fn sent_media(&self, request: &Request<'_>, candidates: &[Snapshot], primary: &ProfileRun) -> Sent {
        if !self.looks_at_media() || request.media.is_empty() {
            return Sent::default();
        }
        let slots = primary.targets.iter().map(|&target| candidates[target].endpoint.slot).collect();
        Sent { media: request.media.to_vec(), slots }
    }

    fn affinities(
        &self,
        context: &Context<'_>,
        runs: &[ProfileRun],
        primary: usize,
    ) -> (Vec<(String, String)>, Vec<Remember>) {
        use base64::Engine as _;
        let mut headers = Vec::new();
        let mut remember = Vec::new();
        for affinity in &self.affinities {
            match affinity {
                Affinity::Header(name) => {
                    let target = context.endpoint(runs[primary].targets[0]);
                    let token = base64::engine::general_purpose::STANDARD.encode(target.full_name());
                    headers.push((name.clone(), token));
                }
                Affinity::Sessions { sources, ttl_ms, profile, state } => {
                    let run = match profile {
                        None => Some(&runs[primary]),
                        Some(name) => runs.iter().find(|run| run.name == *name),
                    };
                    let id = sessions::first(sources, context.request.headers);
                    if let (Some(run), Some(id)) = (run, id) {
                        remember.push(Remember {
                            state: *state,
                            id: id.to_owned(),
                            slot: context.endpoint(run.targets[0]).slot,
                            expires: context.now.saturating_add(*ttl_ms),
                            now: context.now,
                        });
                    }
                }
            }
        }
        (headers, remember)
    }

    /// Records a decision in the state: prefixes, order of use, sessions and load in flight.
    pub fn commit(&self, state: &mut State, decision: &Decision) -> Reservation {
        for (index, (known, matches)) in state.prefixes.iter_mut().zip(&decision.prefixes).enumerate() {
            learns(self.watched_prefixes.get(index), || {
                known.fork(matches);
                for learner in &decision.learners {
                    known.learn(learner.slot, matches, &learner.metrics, decision.now);
                }
            });
        }
        for learner in &decision.learners {
            for (order, &(_, _, prefix)) in state.idle.iter_mut().zip(&self.idle) {
                if decision.prefixes[prefix].is_cold() {
                    order.touch(learner.slot);
                }
            }
        }
        for (index, caches) in state.encoder_caches.iter_mut().enumerate() {
            learns(self.watched_encoders.get(index), || {
                for &slot in &decision.sent.slots {
                    caches.learn(slot, &decision.sent.media);
                }
            });
        }
        for session in &decision.remember {
            state.sessions[session.state].remember(
                session.id.clone(),
                session.slot,
                session.expires,
                session.now,
            );
        }
        let primary = decision.reserve.get(decision.primary).map(|(slot, ..)| (*slot, decision.tpot_ms));
        state.in_flight.reserve(decision.reserve.iter().copied(), primary, decision.flow.clone())
    }
}

impl State {
    /// Records that the first part of the response has arrived, so prefill is over.
    pub fn first_chunk(&mut self, reservation: &mut Reservation) {
        self.in_flight.first_chunk(reservation);
    }

    /// Records that the response is complete, or that the client has left.
    pub fn release(&mut self, reservation: Reservation) {
        self.in_flight.release(reservation);
    }
}

/// The profile whose target computes the prompt for another endpoint.
pub(crate) const PREFILL: &str = "prefill";

/// The name of a rule in traces: endpoints without recent metrics are used only if there are no others.
const RECENT_METRICS: &str = "recent-metrics";

/// The name of a rule in traces: prefill and decode must be able to exchange KV cache.
const KV_REVISION: &str = "kv-revision";

/// A pick in progress. A profile handler controls it.
pub(crate) struct Run<'r, 'c> {
    scheduler: &'r Scheduler,
    pub(crate) context: &'r Context<'c>,
    pub(crate) runs: Vec<ProfileRun>,
}

impl Run<'_, '_> {
    /// Runs the profile with this name. Returns `None` if there is no such profile, or if its filters dropped all candidates.
    pub(crate) fn profile(&mut self, name: &str) -> Option<usize> {
        let scheduler = self.scheduler;
        let profile = scheduler.profiles.iter().find(|profile| profile.name == name)?;
        excluded(scheduler.watched_handler.as_ref(), || self.run(profile, None))
    }

    /// Like [`Self::profile`], but only with endpoints that can exchange KV cache with the target of `run`.
    pub(crate) fn profile_beside(&mut self, name: &str, run: usize) -> Option<usize> {
        let scheduler = self.scheduler;
        let profile = scheduler.profiles.iter().find(|profile| profile.name == name)?;
        let peer = self.runs[run].targets.first().copied();
        excluded(scheduler.watched_handler.as_ref(), || self.run(profile, peer))
    }

    /// The name of the only profile.
    pub(crate) fn only(&self) -> &str {
        &self.scheduler.profiles[0].name
    }

    fn run(&mut self, profile: &Profile, peer: Option<Candidate>) -> Option<usize> {
        let mut candidates: Vec<Candidate> = (0..self.context.candidates.len()).collect();
        let trace = self.scheduler.options.trace;
        let mut passed = Vec::new();
        // The pairing rule runs before the filters, because some filters keep all candidates instead of none.
        if let Some(peer) = peer {
            let before = candidates.len();
            pairing::keep(self.context, peer, &mut candidates);
            if trace && candidates.len() < before {
                passed.push(FilterTrace { plugin: KV_REVISION.to_owned(), kept: candidates.clone() });
            }
            if candidates.is_empty() {
                return None;
            }
        }
        for (name, filter) in &profile.filters {
            filter.filter(self.context, &mut candidates);
            if trace {
                passed.push(FilterTrace { plugin: name.clone(), kept: candidates.clone() });
            }
            if candidates.is_empty() {
                return None;
            }
        }
        // Endpoints without recent metrics are used only if there are no others.
        let fresh = |candidate: &Candidate| self.context.candidates[*candidate].fresh;
        if candidates.iter().any(fresh) {
            let before = candidates.len();
            candidates.retain(fresh);
            if trace && candidates.len() < before {
                passed.push(FilterTrace { plugin: RECENT_METRICS.to_owned(), kept: candidates.clone() });
            }
        }
        let mut totals = vec![0.0; candidates.len()];
        let mut scores = vec![0.0; candidates.len()];
        let mut said = Vec::new();
        for weighted in &profile.scorers {
            scores.fill(0.0);
            weighted.scorer.score(self.context, &candidates, &mut scores);
            for (total, score) in totals.iter_mut().zip(&scores) {
                let counted = if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) };
                *total += counted * weighted.weight;
            }
            if trace {
                said.push(ScorerTrace {
                    plugin: weighted.name.clone(),
                    weight: weighted.weight,
                    scores: candidates.iter().copied().zip(scores.iter().copied()).collect(),
                });
            }
        }
        let totals: Vec<_> = candidates.into_iter().zip(totals).collect();
        let targets = profile.picker.pick(self.context, totals.clone());
        if targets.is_empty() {
            return None;
        }
        self.runs.push(ProfileRun {
            name: profile.name.clone(),
            targets,
            totals,
            filtered: passed,
            trace: said,
        });
        Some(self.runs.len() - 1)
    }
}
