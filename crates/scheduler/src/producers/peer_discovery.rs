//! `k8s-peer-discovery`: finds the other replicas of the picker. In llm-d, no merged plugin reads them, and neither does one here.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawParameters {
    selector: String,
    port: String,
    namespace: String,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let RawParameters { selector, port, namespace } = parameters.read()?;
    for (name, value) in [("selector", &selector), ("port", &port), ("namespace", &namespace)] {
        parameters.require(!value.is_empty(), name, "it is required")?;
    }
    parameters.require(
        port.parse().is_ok_and(|port: u16| port > 0),
        "port",
        format!("expected a port from 1 to 65535, found \"{port}\""),
    )?;
    Ok(Plugin::default())
}
