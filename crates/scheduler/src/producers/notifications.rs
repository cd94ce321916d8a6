//! `k8s-notification-source`: notifies extractors about Kubernetes objects. The picker already watches pods, and has no use
//! for notifications about other objects.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawParameters {
    group: String,
    version: String,
    kind: String,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let RawParameters { group, version, kind } = parameters.read()?;
    parameters.require(!version.is_empty() && !kind.is_empty(), "", "version and kind are required")?;
    parameters.require(
        (group.as_str(), version.as_str(), kind.as_str()) == ("", "v1", "Pod"),
        "kind",
        format!(
            "\"{kind}\" of group \"{group}\" and version \"{version}\" is not supported: only pods of \
             version v1 are watched"
        ),
    )?;
    Ok(Plugin::default())
}
