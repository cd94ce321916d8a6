//! `session-affinity-scorer` (alpha): prefers the endpoint that served the session before.

use crate::{
    builder::EndpointHeader,
    prelude::*,
    sessions::{SessionLookup, SessionSettings, SessionSource},
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    strategy: Strategy,
    encoded_endpoint_header_config: Option<EncodedHeader>,
    session_id_config: Option<SessionId>,
    profile_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct EncodedHeader {
    header: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SessionId {
    sources: Vec<Source>,
    eviction_ttl_seconds: f64,
    eviction_sweep_seconds: f64,
}

/// One place where a session may stand: a header, or what another plugin says.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Source {
    header: String,
    attribute: String,
    producer: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    #[default]
    EncodedEndpointHeader,
    SessionId,
}

const TOKEN: &str = "x-session-token";
const ID: &str = "x-session-id";
/// How long a session is remembered, in seconds.
const TTL: f64 = 300.0;
/// The names under which the reference's producers provide sessions.
const AGENT: &str = "agent-identity";
const SESSION: &str = "SessionIDDataKey";
const PRODUCER: &str = "session-id-producer";

/// Finds the endpoint of a session.
pub(crate) enum SessionAffinity {
    /// The client sends the endpoint's name back in this header.
    Header(String),
    /// The producer at this place remembers it.
    Sessions(usize),
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    SessionAffinity::read(parameters, builder).map(Plugin::scorer)
}

/// Returns the sources of the session.
fn places(
    sources: &[Source],
    parameters: &Parameters<'_>,
    builder: &Builder,
) -> Result<Vec<SessionSource>, ConfigError> {
    if sources.is_empty() {
        return Ok(vec![SessionSource::Header(ID.to_owned())]);
    }
    let mut places = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let at = |message: String| parameters.invalid(&format!("sessionIdConfig.sources[{index}]"), message);
        match (source.header.as_str(), source.attribute.as_str()) {
            (header, "") if !header.is_empty() => {
                places.push(SessionSource::Header(header.to_ascii_lowercase()));
            }
            ("", AGENT) if source.producer.is_empty() => match &builder.requirements.agents {
                Some(agents) => places.extend(agents.0.iter().cloned()),
                None => return Err(at(format!("declare a plugin of type {AGENT}"))),
            },
            ("", SESSION) => {
                let wanted = if source.producer.is_empty() { PRODUCER } else { &source.producer };
                let found = builder.session_ids.iter().find(|(name, _)| name == wanted);
                let found = found.map(|(_, place)| place.clone());
                places.push(found.ok_or_else(|| {
                    parameters.unknown_reference(
                        &format!("sessionIdConfig.sources[{index}].producer"),
                        wanted,
                        "a declared session-id-producer",
                        builder.session_ids.iter().map(|(name, _)| name.as_str()),
                    )
                })?);
            }
            ("", attribute) if !attribute.is_empty() => {
                return Err(at(format!(
                    "attribute \"{attribute}\" is not known; known are {AGENT}, and {SESSION} of a {PRODUCER}"
                )));
            }
            _ => return Err(at("exactly one of header and attribute is required".to_owned())),
        }
    }
    Ok(places)
}

impl SessionAffinity {
    pub(crate) fn read(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Self, ConfigError> {
        let raw: RawParameters = parameters.read()?;
        let profile = raw.profile_name.filter(|name| !name.is_empty());
        let wanted = profile.iter().map(|profile| (parameters.name.to_owned(), profile.clone()));
        builder.wanted_profiles.extend(wanted);
        let mut unused = |is_given: bool, field: &str, strategy: &str| {
            if is_given {
                let why = format!("no effect: {field} needs strategy: {strategy}");
                builder.warnings.push((parameters.name.to_owned(), why));
            }
        };
        Ok(match raw.strategy {
            Strategy::EncodedEndpointHeader => {
                unused(raw.session_id_config.is_some(), "sessionIdConfig", "session_id");
                let config = raw.encoded_endpoint_header_config.unwrap_or_default();
                let name = config.header.trim().to_ascii_lowercase();
                let name = if name.is_empty() { TOKEN.to_owned() } else { name };
                let header = EndpointHeader { name: name.clone(), profile };
                if !builder.endpoint_headers.contains(&header) {
                    builder.endpoint_headers.push(header);
                }
                Self::Header(name)
            }
            Strategy::SessionId => {
                let is_given = raw.encoded_endpoint_header_config.is_some();
                unused(is_given, "encodedEndpointHeaderConfig", "encoded_endpoint_header");
                let SessionId { sources, eviction_ttl_seconds, eviction_sweep_seconds } =
                    raw.session_id_config.unwrap_or_default();
                // Expired sessions are removed when new sessions come, so no timer is needed.
                for (field, value) in [
                    ("sessionIdConfig.evictionTtlSeconds", eviction_ttl_seconds),
                    ("sessionIdConfig.evictionSweepSeconds", eviction_sweep_seconds),
                ] {
                    parameters.zero_or_more(field, value)?;
                }
                let seconds = if eviction_ttl_seconds > 0.0 { eviction_ttl_seconds } else { TTL };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is above 0, and saturates"
                )]
                let ttl_ms = (seconds * 1000.0) as u64;
                let sources = places(&sources, parameters, builder)?;
                let settings = SessionSettings { sources, ttl_ms, profile };
                Self::Sessions(builder.add(parameters, settings))
            }
        })
    }

    /// Returns the session's endpoint, if it is a candidate.
    pub(crate) fn find(&self, context: &Context<'_>, candidates: &[Candidate]) -> Option<Candidate> {
        use base64::Engine as _;
        match self {
            Self::Header(name) => {
                let token = context.request.headers.header(name)?;
                let decoded = base64::engine::general_purpose::STANDARD.decode(token).ok()?;
                let wanted = std::str::from_utf8(&decoded).ok()?;
                let (namespace, name) = wanted.split_once('/')?;
                candidates.iter().copied().find(|&candidate| {
                    let endpoint = context.endpoint(candidate);
                    endpoint.namespace == namespace && endpoint.name == name
                })
            }
            Self::Sessions(producer) => {
                let session = context.findings[*producer].get::<Option<SessionLookup>>()?.as_ref()?;
                session.candidate().filter(|candidate| candidates.contains(candidate))
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
