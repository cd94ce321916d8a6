//! `topology-extractor`: reads the location of endpoints from labels.

use crate::{prelude::*, topology::Topology};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawParameters {
    hostname: String,
    rack: String,
    zone: String,
    region: String,
}

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let given: RawParameters = parameters.read()?;
    let label = |given: String, usual: &str| if given.is_empty() { usual.to_owned() } else { given };
    let labels = [
        label(given.hostname, "kubernetes.io/hostname"),
        label(given.rack, "topology.kubernetes.io/rack"),
        label(given.zone, "topology.kubernetes.io/zone"),
        label(given.region, "topology.kubernetes.io/region"),
    ];
    builder.topologies.push((parameters.name.to_owned(), Topology { labels }));
    Ok(Plugin::default())
}
