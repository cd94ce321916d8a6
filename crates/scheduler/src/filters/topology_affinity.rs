//! `topology-affinity-filter` (alpha): keeps endpoints near the endpoint that was picked before, so that prefill is near
//! decode.

use crate::{
    prelude::*,
    topology::{Level, Topology},
};

parameters! {
    struct RawParameters {
        min_affinity: Level = Level::Host,
        topology_producer_name: Option<String>,
    }
}

struct TopologyAffinity {
    topology: Topology,
    farthest: Level,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let topology = builder.topology(parameters, raw.topology_producer_name.as_deref())?;
    Ok(Plugin::filter(TopologyAffinity { topology, farthest: raw.min_affinity }))
}

impl Filter for TopologyAffinity {
    /// If no candidate is near, all are kept.
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        let Some(levels) = self.topology.levels(context, candidates) else { return };
        let near = candidates.iter().zip(levels).filter(|(_, level)| *level <= self.farthest);
        let near: Vec<_> = near.map(|(candidate, _)| *candidate).collect();
        if !near.is_empty() {
            *candidates = near;
        }
    }
}
