//! `always-disagg-multimodal-decider`: requests with images, audio or video.

use crate::prelude::*;

pub(crate) struct Multimodal;

impl Decider for Multimodal {
    fn decide(&self, context: &Context<'_>, _: Option<&ProfileRun>) -> bool {
        context.request.multimodal
    }
}
