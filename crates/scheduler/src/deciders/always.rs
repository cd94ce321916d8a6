//! `always-disagg-pd-decider`: every request.

use crate::prelude::*;

pub(crate) struct Always;

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    parameters.read::<NoParameters>()?;
    Ok(Plugin::decider(Always))
}

impl Decider for Always {
    fn decide(&self, _: &Context<'_>, _: Option<&ProfileRun>) -> bool {
        true
    }
}
