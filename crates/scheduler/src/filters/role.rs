//! `prefill-filter`, `decode-filter`, `encode-filter`: keep endpoints by the role in their label.

use crate::{
    context::{Candidate, Context},
    error::ConfigError,
    parameters::{NoParameters, Parameters},
    plugin::{Filter, Plugin},
    registry::Builder,
};

const ROLE_LABEL: &str = "llm-d.ai/role";

struct Role {
    values: &'static [&'static str],
    /// Whether endpoints without the label are kept. They do everything, so they can decode.
    unlabelled: bool,
}

pub(crate) fn build_prefill(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    parameters.read::<NoParameters>()?;
    Ok(Plugin::filter(Role {
        values: &["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"],
        unlabelled: false,
    }))
}

pub(crate) fn build_decode(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    parameters.read::<NoParameters>()?;
    Ok(Plugin::filter(Role {
        values: &["decode", "prefill-decode", "both", "encode-prefill-decode"],
        unlabelled: true,
    }))
}

pub(crate) fn build_encode(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    parameters.read::<NoParameters>()?;
    Ok(Plugin::filter(Role {
        values: &["encode", "encode-prefill", "encode-prefill-decode"],
        unlabelled: false,
    }))
}

impl Filter for Role {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        candidates.retain(|&candidate| {
            context
                .endpoint(candidate)
                .labels
                .get(ROLE_LABEL)
                .map_or(self.unlabelled, |role| self.values.contains(&role.as_str()))
        });
    }
}
