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
    let raw: RawParameters = parameters.read()?;
    let label = |raw: String, usual: &str| if raw.is_empty() { usual.to_owned() } else { raw };
    let labels = [
        label(raw.hostname, "kubernetes.io/hostname"),
        label(raw.rack, "topology.kubernetes.io/rack"),
        label(raw.zone, "topology.kubernetes.io/zone"),
        label(raw.region, "topology.kubernetes.io/region"),
    ];
    builder.topologies.push((parameters.name.to_owned(), Topology { labels }));
    Ok(Plugin::default())
}
