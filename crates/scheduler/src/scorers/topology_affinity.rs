//! `topology-affinity-scorer` (alpha): prefers endpoints near the endpoint that was picked before, so that prefill is near
//! decode.

use crate::{
    prelude::*,
    topology::{Level, Topology},
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawParameters {
    topology_producer_name: Option<String>,
}

struct TopologyAffinity(Topology);

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    Ok(Plugin::scorer(TopologyAffinity(builder.topology(parameters, raw.topology_producer_name.as_deref())?)))
}

impl Scorer for TopologyAffinity {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let Some(levels) = self.0.levels(context, candidates) else { return };
        for (score, level) in scores.iter_mut().zip(levels) {
            // The scores follow the transfer speed of a KV cache: within a host, through one switch, through several
            // switches, between sites.
            *score = match level {
                Level::Host => 1.0,
                Level::Rack => 0.2,
                Level::Zone => 0.05,
                Level::Region => 0.02,
                Level::Apart => 0.0,
            };
        }
    }
}
