//! `session-affinity-scorer` (alpha): prefers the endpoint that served the session before.

use serde::Deserialize;

use crate::{
    context::{Candidate, Context},
    error::ConfigError,
    parameters::Parameters,
    plugin::{Affinity, Plugin, Scorer},
    registry::Builder,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Given {
    strategy: Strategy,
    header: String,
    session_id_sources: Vec<String>,
    eviction_ttl_seconds: u64,
    /// Accepted: expired sessions are swept out when new ones come.
    #[serde(rename = "sweepIntervalSeconds")]
    _sweep_interval_seconds: u64,
    profile_name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    #[default]
    EncodedEndpointHeader,
    SessionId,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            header: "x-session-token".to_owned(),
            session_id_sources: vec!["x-session-id".to_owned()],
            eviction_ttl_seconds: 300,
            _sweep_interval_seconds: 10,
            profile_name: None,
        }
    }
}

/// How the endpoint of a session is found.
pub(crate) struct SessionAffinity(Affinity);

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let affinity = SessionAffinity::read(parameters, builder)?;
    Ok(Plugin { affinity: Some(affinity.affinity()), ..Plugin::scorer(affinity) })
}

impl SessionAffinity {
    pub(crate) fn read(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Self, ConfigError> {
        let given: Given = parameters.read()?;
        Ok(Self(match given.strategy {
            Strategy::EncodedEndpointHeader => Affinity::Header(given.header.to_ascii_lowercase()),
            Strategy::SessionId => {
                builder.sessions += 1;
                Affinity::Sessions {
                    sources: given
                        .session_id_sources
                        .iter()
                        .map(|source| source.to_ascii_lowercase())
                        .collect(),
                    ttl_ms: given.eviction_ttl_seconds.saturating_mul(1000),
                    profile: given.profile_name,
                    state: builder.sessions - 1,
                }
            }
        }))
    }

    pub(crate) fn affinity(&self) -> Affinity {
        self.0.clone()
    }

    /// The session's endpoint, if it is among the candidates.
    pub(crate) fn find(&self, context: &Context<'_>, candidates: &[Candidate]) -> Option<Candidate> {
        use base64::Engine as _;
        let headers = context.request.headers;
        match &self.0 {
            Affinity::Header(name) => {
                let token = headers.header(name)?;
                let decoded = base64::engine::general_purpose::STANDARD.decode(token).ok()?;
                let wanted = std::str::from_utf8(&decoded).ok()?;
                let (namespace, name) = wanted.split_once('/')?;
                candidates.iter().copied().find(|&candidate| {
                    let endpoint = context.endpoint(candidate);
                    endpoint.namespace == namespace && endpoint.name == name
                })
            }
            Affinity::Sessions { sources, state, .. } => {
                let id = sources.iter().find_map(|source| headers.header(source))?;
                let slot = context.state.sessions[*state].get(id, context.now)?;
                candidates.iter().copied().find(|&candidate| context.endpoint(candidate).slot == slot)
            }
        }
    }
}

impl Scorer for SessionAffinity {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        if let Some(found) = self.find(context, candidates)
            && let Some(place) = candidates.iter().position(|&candidate| candidate == found)
        {
            scores[place] = 1.0;
        }
    }
}
