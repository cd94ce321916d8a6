//! What plugins register while they are built, and how they find each other.

use std::{collections::BTreeMap, sync::Arc};

use longboat_api::picker_plugins::PREFIX_PRODUCER;

use crate::{
    error::ConfigError,
    latency::LatencySettings,
    parameters::Parameters,
    plugin::Decider,
    prefix::Settings,
    prefixes::PrefixSource,
    producer::{NamedProducer, Producer},
    producers::p2p_source::PrefixPeers,
    requirements::Requirements,
    sessions::SessionSource,
    topology::Topology,
};

/// The data that plugins register while they are built.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) requirements: Requirements,
    /// The producers with state, also those of scorers.
    pub(crate) producers: Vec<NamedProducer>,
    /// The places of the producers of type `precise-prefix-cache-producer`.
    pub(crate) precise_producers: Vec<usize>,
    /// The sources of sessions, by the name of the producer.
    pub(crate) session_ids: Vec<(String, SessionSource)>,
    /// The declared topology extractors.
    pub(crate) topologies: Vec<(String, Topology)>,
    /// A load producer, and the prefix producer that it names. It is looked up when all producers are known.
    pub(crate) load_prefix: Option<(String, String)>,
    /// References of producers to load producers. They are checked when all producers are known.
    pub(crate) wanted_loads: Vec<(String, String)>,
    /// The predictor of latencies.
    pub(crate) latency: Option<Predictor>,
    pub(crate) deciders: BTreeMap<String, Arc<dyn Decider>>,
    pub(crate) peer_sources: Vec<PrefixPeers>,
    /// Response headers that name the endpoint. Clients send them back in their next request.
    pub(crate) endpoint_headers: Vec<EndpointHeader>,
    /// Warnings about parameters, with the plugin's name.
    pub(crate) warnings: Vec<(String, String)>,
    /// Plugins that read what a profile chose, and the profile.
    pub(crate) wanted_profiles: Vec<(String, String)>,
}

/// A response header that names an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointHeader {
    pub(crate) name: String,
    /// The profile whose endpoint it names, if it is not the primary one.
    pub(crate) profile: Option<String>,
}

/// The predictor of latencies, and the producers that it reads.
pub(crate) struct Predictor {
    pub(crate) settings: LatencySettings,
    pub(crate) prefix: Option<String>,
    /// The producer of encoder caches; empty: the first one. `None` if none is read.
    pub(crate) encoder_cache: Option<String>,
}

/// A field that names a producer, and what it should name.
type ProducerReference = (&'static str, &'static str);

pub(crate) const PREFIXES: ProducerReference = (
    "prefixMatchInfoProducerName",
    "a declared approx-prefix-cache-producer, precise-prefix-cache-producer or burst-prefix-cache-producer",
);

/// The name of the default load producer.
const DEFAULT_LOAD: &str = "inflight-load-producer";

impl Builder {
    /// Adds a producer under the plugin's name, and returns its place.
    pub(crate) fn add(&mut self, parameters: &Parameters<'_>, producer: impl Producer) -> usize {
        let (name, producer) = (parameters.name.to_owned(), Box::new(producer));
        self.producers.push(NamedProducer { name, producer, times: None });
        self.producers.len() - 1
    }

    /// Returns the producers of this type, with their places and names.
    pub(crate) fn all<T: Producer>(&self) -> impl Iterator<Item = (usize, &str, &T)> {
        let producers = self.producers.iter().enumerate();
        producers.filter_map(|(place, named)| Some((place, named.name.as_str(), named.get::<T>()?)))
    }

    /// Returns the place of the prefix producer that a plugin reads: the named one, or the default one.
    pub(crate) fn prefix(
        &mut self,
        parameters: &Parameters<'_>,
        producer: Option<&str>,
    ) -> Result<usize, ConfigError> {
        self.prefix_or(parameters, producer, Settings::default())
    }

    /// Like [`Self::prefix`]. If none is declared, the default one is created from these settings.
    pub(crate) fn prefix_or(
        &mut self,
        parameters: &Parameters<'_>,
        producer: Option<&str>,
        default: Settings,
    ) -> Result<usize, ConfigError> {
        let is_approximate = |source: &PrefixSource| matches!(source, PrefixSource::Approximate(_));
        let found = self.place(parameters, PREFIXES, producer, PREFIX_PRODUCER, is_approximate)?;
        Ok(found.unwrap_or_else(|| {
            self.add(&Parameters::undeclared(PREFIX_PRODUCER), PrefixSource::Approximate(default))
        }))
    }

    /// Returns the place of the producer that a plugin reads: the named one. Without a name, it is the one with the usual name, or
    /// else the first one that serves plugins that name none. `None` if the usual one has to be created.
    pub(crate) fn place<T: Producer>(
        &self,
        parameters: &Parameters<'_>,
        reference: ProducerReference,
        named: Option<&str>,
        usual: &str,
        serves: impl Fn(&T) -> bool,
    ) -> Result<Option<usize>, ConfigError> {
        let wanted = named.filter(|name| !name.is_empty()).unwrap_or(usual);
        let by_name = self.all::<T>().find(|(_, name, _)| *name == wanted);
        let found = by_name.or_else(|| self.all().find(|(.., producer)| wanted == usual && serves(producer)));
        if found.is_none() && wanted != usual {
            return Err(self.missing::<T>(parameters, reference, wanted));
        }
        Ok(found.map(|(place, ..)| place))
    }

    pub(crate) fn missing<T: Producer>(
        &self,
        parameters: &Parameters<'_>,
        (field, expected): ProducerReference,
        wanted: &str,
    ) -> ConfigError {
        parameters.unknown_reference(field, wanted, expected, self.all::<T>().map(|(_, name, _)| name))
    }

    /// Returns the topology that a plugin reads: that of the named extractor, or of the first one.
    pub(crate) fn topology(
        &mut self,
        parameters: &Parameters<'_>,
        extractor: Option<&str>,
    ) -> Result<Topology, ConfigError> {
        let found = match extractor.filter(|name| !name.is_empty()) {
            Some(wanted) => self.topologies.iter().find(|(name, _)| name == wanted),
            None if self.topologies.is_empty() => {
                let why = "no effect: it needs the topology of endpoints; declare a topology-extractor";
                self.warnings.push((parameters.name.to_owned(), why.to_owned()));
                return Ok(Topology::default());
            }
            None => self.topologies.first(),
        };
        found.map(|(_, topology)| topology.clone()).ok_or_else(|| {
            parameters.unknown_reference(
                "topologyProducerName",
                extractor.unwrap_or_default(),
                "a declared topology-extractor",
                self.topologies.iter().map(|(name, _)| name.as_str()),
            )
        })
    }

    /// Checks a reference to a load producer. Without a name, the default producer is used, which needs no declaration.
    pub(crate) fn load_producer(
        &self,
        parameters: &Parameters<'_>,
        producer: Option<&str>,
    ) -> Result<(), ConfigError> {
        match producer.filter(|name| !name.is_empty() && *name != DEFAULT_LOAD) {
            Some(name) if !self.requirements.loads.iter().any(|known| known == name) => Err(parameters
                .unknown_reference(
                    "inFlightLoadProducerName",
                    name,
                    "a declared inflight-load-producer",
                    self.requirements.loads.iter().map(String::as_str),
                )),
            _ => Ok(()),
        }
    }

    /// Returns a decider by name.
    pub(crate) fn decider(&self, handler: &str, name: &str) -> Result<Arc<dyn Decider>, ConfigError> {
        self.deciders.get(name).cloned().ok_or_else(|| {
            let known = self.deciders.keys().map(String::as_str);
            ConfigError::reference(format!("plugin \"{handler}\""), name, "a declared decider", known)
        })
    }
}
