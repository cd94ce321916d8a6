//! The scheduler: the profiles of a configuration, and the course of a pick.

mod build;
mod describe;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use longboat_api::sidecar_headers;
use rand::RngCore;

use crate::{
    builder::EndpointHeader,
    burst::BurstSettings,
    context::Context,
    decision::{Decision, PREFILL, PrefixHolder, ProfileRun},
    endpoint::Snapshot,
    error::ScheduleError,
    estimates::MediaEstimates,
    finding::Finding,
    inflight::{InFlight, Reservation, TargetLoad},
    latency::{Features, LatencyObjective, LatencySettings},
    plugin::{Admitter, ProfileHandler},
    prefixes::{PrefixSource, Prefixes},
    producer::NamedProducer,
    producers::p2p_source::PrefixPeers,
    profile::Profile,
    report::Report,
    request::Request,
    requirements::{Requirements, TokenizerSettings},
    run::Run,
    sessions::Agents,
    state::State,
    stopwatch::{ProducerTimes, Role, Stopwatch, timed},
    timed_plugin::TimedPlugin,
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
    /// Warnings about plugins in profiles in which they do nothing, as in llm-d's published configurations, and about parameters
    /// without effect.
    pub(crate) warnings: Vec<String>,
    /// The type of each declared plugin.
    types: BTreeMap<String, String>,
    handler: Arc<dyn ProfileHandler>,
    handler_plugin: Handler,
    admitters: Vec<(String, Arc<dyn Admitter>)>,
    /// Response headers that name the endpoint.
    endpoint_headers: Vec<EndpointHeader>,
    peer_sources: Vec<PrefixPeers>,
    producers: Vec<NamedProducer>,
    requirements: Requirements,
    latency: Option<LatencySettings>,
    /// The times of the profile handler, without the profiles that it runs.
    watched_handler: Option<Arc<dyn Stopwatch>>,
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
    /// Times the work of the profile handler, filters, scorers, pickers, admitters and producers from now on. `watch` makes
    /// the stopwatch for a plugin in a role; a plugin that several profiles use gets one for each.
    pub fn time_plugins(&mut self, watch: impl Fn(Role) -> Arc<dyn Stopwatch>) {
        let types = &self.types;
        let watch = |extension_point, name: &str| {
            let plugin_type = type_of(types, name).to_owned();
            watch(Role { extension_point, plugin_type, plugin_name: name.to_owned() })
        };
        self.watched_handler = Some(watch("ProfilePicker", &self.handler_plugin.name));
        for (name, admitter) in &mut self.admitters {
            *admitter =
                Arc::new(TimedPlugin { plugin: Arc::clone(admitter), watch: watch("Admission", name) });
        }
        for NamedProducer { name, times, .. } in
            self.producers.iter_mut().filter(|named| named.producer.is_timed())
        {
            let (finds, learns) = (watch("DataProducer", name), watch("PreRequest", name));
            *times = Some(ProducerTimes { finds, learns });
        }
        for profile in &mut self.profiles {
            for (name, filter) in &mut profile.filters {
                *filter = Arc::new(TimedPlugin { plugin: Arc::clone(filter), watch: watch("Filter", name) });
            }
            for weighted in &mut profile.scorers {
                let plugin = Arc::clone(&weighted.scorer);
                weighted.scorer = Arc::new(TimedPlugin { plugin, watch: watch("Scorer", &weighted.name) });
            }
            let name = profile.picker_name.as_deref().unwrap_or("max-score-picker");
            let plugin = Arc::clone(&profile.picker);
            profile.picker = Arc::new(TimedPlugin { plugin, watch: watch("Picker", name) });
        }
    }

    /// Creates an empty state for this scheduler.
    pub fn state(&self) -> State {
        let producers = self.producers.iter().map(|named| named.producer.state()).collect();
        State { producers, in_flight: InFlight::default() }
    }

    /// The most bytes of a prompt's text that are read, from its start. For tokens there is no limit.
    pub fn text_limit(&self) -> usize {
        self.producers.iter().map(|named| named.producer.text_limit()).max().unwrap_or(0)
    }

    /// Whether a plugin uses images, audio and videos.
    pub fn looks_at_media(&self) -> bool {
        self.producers.iter().any(|named| named.producer.looks_at_media())
    }

    /// The tokenizer that must be called for the tokens of prompts before a request is scheduled, if there is one.
    pub fn tokenizer(&self) -> Option<&TokenizerSettings> {
        self.requirements.tokenizer.as_ref()
    }

    /// What images and videos count as in prompts without a tokenizer.
    pub fn media_estimates(&self) -> MediaEstimates {
        self.requirements.estimates.unwrap_or_default()
    }

    /// The plugin that decides which profiles run.
    pub fn handler(&self) -> &Handler {
        &self.handler_plugin
    }

    /// Returns the name and the type of each declared plugin.
    pub fn declared(&self) -> impl Iterator<Item = (&str, &str)> {
        self.types.iter().map(|(name, plugin_type)| (name.as_str(), plugin_type.as_str()))
    }

    fn prefix_sources(&self) -> impl Iterator<Item = (&str, &PrefixSource)> {
        self.producers.iter().filter_map(|named| Some((named.name.as_str(), named.get()?)))
    }

    /// Returns the name and the type of each prefix producer.
    pub fn prefix_producers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.prefix_sources().map(|(name, _)| (name, type_of(&self.types, name)))
    }

    /// Whether a prefix producer is told by engines which blocks they hold.
    pub fn knows_blocks(&self) -> bool {
        self.prefix_sources().any(|(_, source)| matches!(source, PrefixSource::Precise(_)))
    }

    /// The names of the producers of loads. Loads are counted even if none is declared.
    pub fn load_producers(&self) -> &[String] {
        &self.requirements.loads
    }

    /// Whether a response header names the endpoint that served.
    pub fn names_served_endpoint(&self) -> bool {
        self.requirements.names_served_endpoint
    }

    /// The reports about each response to the proxy.
    pub fn reports(&self) -> &[Report] {
        &self.requirements.reports
    }

    /// The headers in which agents name their sessions, if agent sessions are used as flows.
    pub fn agents(&self) -> Option<&Agents> {
        self.requirements.agents.as_ref()
    }

    /// The settings of the latency predictor, if one is used.
    pub fn latency(&self) -> Option<&LatencySettings> {
        self.latency.as_ref()
    }

    /// How requests that arrive together are gathered before they are scheduled, if they are.
    pub fn burst(&self) -> Option<&BurstSettings> {
        self.prefix_sources().find_map(|(_, source)| match source {
            PrefixSource::Burst(settings) => Some(settings),
            PrefixSource::Approximate(_) | PrefixSource::Precise(_) => None,
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
        let known = state.producer::<Prefixes>(latency.prefix);
        known.map_or_else(Vec::new, |known| {
            latency.features(state, request, candidates, &known.matches(request, candidates, now))
        })
    }
}

/// The type of a plugin. One that is not declared has the name of its type.
fn type_of<'a>(types: &'a BTreeMap<String, String>, name: &'a str) -> &'a str {
    types.get(name).map_or(name, String::as_str)
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
        let producers = self.producers.iter().zip(&state.producers);
        let findings: Vec<Finding> = producers
            .map(|(named, state)| {
                let finds = named.times.as_ref().map(|times| &times.finds);
                timed(finds, || state.find(request, candidates, now))
            })
            .collect();
        let headrooms = match &self.latency {
            Some(latency) if !request.predictions.is_empty() => {
                latency.latency_headrooms(state, request, candidates)
            }
            _ => Vec::new(),
        };
        let output = self.requirements.output.as_ref();
        let output =
            output.map(|estimate| estimate.tokens(request.tokens() as u64, request.max_output_tokens));
        let context = Context {
            request,
            candidates,
            state,
            findings: &findings,
            headrooms: &headrooms,
            load_prefix: self.requirements.load_prefix,
            output_tokens: output.unwrap_or(0),
            peer: Cell::new(None),
            now,
            random: RefCell::new(random),
        };
        // Admitters judge by what producers have found, such as predicted latencies.
        for (_, admitter) in &self.admitters {
            admitter.admit(&context)?;
        }
        let mut run = Run {
            profiles: &self.profiles,
            trace: self.options.trace,
            handler_watch: self.watched_handler.as_ref(),
            context: &context,
            runs: Vec::new(),
        };
        let mut picked = timed(self.watched_handler.as_ref(), || self.handler.run(&mut run))?;
        let runs = run.runs;
        if !self.peer_sources.is_empty() {
            let find = |source: &PrefixPeers| source.find(&context, &runs, picked.primary);
            match self.peer_sources.iter().find_map(find) {
                Some(peer) => picked.set.push((sidecar_headers::CACHE_SOURCE, peer)),
                // A header that the client sends itself would reach the model server, so it is removed.
                None => picked.remove.push(sidecar_headers::CACHE_SOURCE),
            }
        }
        let primary = &runs[picked.primary];
        let destination = picked.destination.unwrap_or_else(|| {
            primary.targets.iter().map(|&target| candidates[target].endpoint.host_port.clone()).collect()
        });
        let response_headers = self.endpoint_headers(&runs, picked.primary, &context);
        let targets = primary.targets.iter().map(|&target| candidates[target].endpoint.slot).collect();
        let prefix_holders = prefix_holders(&runs, picked.primary, candidates);
        let reserve = loads(&runs, &context);
        Ok(Decision {
            primary: picked.primary,
            destination,
            set_headers: picked.set,
            remove_headers: picked.remove,
            response_headers,
            runs,
            findings,
            targets,
            now,
            prefix_holders,
            reserve,
            holds_tokens: output.is_some(),
            flow: None,
            tpot_ms: if self.latency.is_some() { LatencyObjective::of(request.headers).tpot_ms } else { 0.0 },
        })
    }

    /// Returns the response headers that name the endpoint.
    fn endpoint_headers(
        &self,
        runs: &[ProfileRun],
        primary: usize,
        context: &Context<'_>,
    ) -> Vec<(String, String)> {
        use base64::Engine as _;
        let header = |EndpointHeader { name, profile }: &EndpointHeader| {
            let run = match profile {
                None => &runs[primary],
                Some(profile) => runs.iter().find(|run| run.name == *profile)?,
            };
            let endpoint = context.endpoint(run.targets[0]).full_name();
            Some((name.clone(), base64::engine::general_purpose::STANDARD.encode(endpoint)))
        };
        self.endpoint_headers.iter().filter_map(header).collect()
    }

    /// Records a decision in the state: prefixes, order of use, sessions and load in flight.
    pub fn commit(&self, state: &mut State, decision: &Decision) -> Reservation {
        // An endpoint that has left since may have given its slot to another one, for which the request must not count.
        if decision.reserve.iter().any(|load| state.in_flight.owner(load.slot) != load.owner) {
            return Reservation::default();
        }
        let producers = self.producers.iter().zip(&mut state.producers).zip(&decision.findings);
        for ((named, state), finding) in producers {
            let learns = named.times.as_ref().map(|times| &times.learns);
            timed(learns, || state.learn(finding, decision));
        }
        state.in_flight.reserve(decision)
    }
}

impl State {
    /// Records that the first part of the response has arrived, so prefill is over. `token` is the time if the response is a
    /// stream. The first part of any other response comes when all tokens have been computed.
    pub fn first_chunk(&mut self, reservation: &mut Reservation, token: Option<u64>) {
        if let Some(token) = token.and_then(|now| self.in_flight.first_token(reservation, now)) {
            for producer in &mut self.producers {
                producer.observe(&token);
            }
        }
        self.in_flight.first_chunk(reservation);
    }

    /// Records that the response is complete, or that the client has left.
    pub fn release(&mut self, reservation: Reservation) {
        self.in_flight.release(reservation);
    }
}

/// The endpoints that will hold the prompt's prefix: the target, and the prefill endpoint if there is one.
fn prefix_holders(runs: &[ProfileRun], primary: usize, candidates: &[Snapshot]) -> Vec<PrefixHolder> {
    let holds = runs.iter().enumerate().filter(|(index, run)| *index == primary || run.name == PREFILL);
    holds
        .map(|(_, run)| {
            let target = &candidates[run.targets[0]];
            PrefixHolder { slot: target.endpoint.slot, metrics: Arc::clone(&target.metrics) }
        })
        .collect()
}

/// The load of each run.
fn loads(runs: &[ProfileRun], context: &Context<'_>) -> Vec<TargetLoad> {
    // As in llm-d, the endpoint that encodes counts the prompt, too.
    runs.iter()
        .map(|run| {
            let target = run.targets[0];
            let tokens = context.uncached_tokens(target) + context.output_tokens;
            let slot = context.endpoint(target).slot;
            let owner = context.state.in_flight.owner(slot);
            TargetLoad { slot, owner, prefill: run.name == PREFILL, tokens }
        })
        .collect()
}
