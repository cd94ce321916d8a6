//! `always-disagg-multimodal-decider`: requests with images, audio or video.

use crate::prelude::*;

struct Multimodal;

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    parameters.read::<NoParameters>()?;
    Ok(Plugin::decider(Multimodal))
}

impl Decider for Multimodal {
    fn decide(&self, context: &Context<'_>, _: Option<&ProfileRun>) -> bool {
        context.request.multimodal
    }
}
