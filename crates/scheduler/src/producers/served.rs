//! `destination-endpoint-served-verifier`: a response header names the endpoint that served, as the proxy reports it. For
//! conformance tests.

use crate::prelude::*;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    builder.requirements.names_served_endpoint = true;
    parameters.none(Plugin::default())
}
