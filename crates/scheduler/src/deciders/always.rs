//! `always-disagg-pd-decider`: every request.

use crate::prelude::*;

pub(crate) struct Always;

impl Decider for Always {
    fn decide(&self, _: &Context<'_>, _: Option<&ProfileRun>) -> bool {
        true
    }
}
