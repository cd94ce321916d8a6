//! Producers compute data for other plugins. This module also has the plugins that other parts of the picker implement.

use crate::prelude::*;

pub(crate) mod agent_identity;
pub(crate) mod approx_prefix;
pub(crate) mod attribute_reporter;
pub(crate) mod burst_prefix;
pub(crate) mod encoder_cache;
pub(crate) mod inflight_load;
pub(crate) mod latency_observer;
pub(crate) mod notifications;
pub(crate) mod p2p_source;
pub(crate) mod peer_discovery;
pub(crate) mod precise_prefix;
pub(crate) mod predicted_latency;
pub(crate) mod served;
pub(crate) mod session_id;
pub(crate) mod tokens;
pub(crate) mod topology_extractor;

/// Builds plugins that other parts of the picker implement. Those parts read and check the parameters.
#[expect(clippy::unnecessary_wraps, reason = "the signature of every plugin's constructor")]
pub(crate) fn elsewhere(_: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    Ok(Plugin::default())
}
