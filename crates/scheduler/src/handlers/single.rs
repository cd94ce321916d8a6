//! `single-profile-handler`: runs the only profile.

use crate::prelude::*;

pub(crate) struct Single;

impl ProfileHandler for Single {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        run.only_profile().map(HandlerResult::plain)
    }

    fn takes_one_profile(&self) -> bool {
        true
    }
}
