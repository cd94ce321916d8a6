//! `agent-identity` (alpha): requests of the same coding agent session form a flow, if no header names their flow.

use crate::{
    prelude::*,
    sessions::{Agents, SessionSource},
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    additional_session_headers: Vec<String>,
}

/// The headers of known agents.
const KNOWN: [&str; 4] = ["x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let RawParameters { additional_session_headers } = parameters.read()?;
    parameters.require(builder.requirements.agents.is_none(), "", "there may be one agent-identity")?;
    let more = additional_session_headers.iter().map(|header| header.trim().to_ascii_lowercase());
    let all = more.chain(KNOWN.iter().map(|header| (*header).to_owned()));
    builder.requirements.agents = Some(Agents(all.map(SessionSource::Header).collect()));
    Ok(Plugin::default())
}
