//! `single-profile-handler`: runs the only profile.

use crate::prelude::*;

pub(crate) struct Single;

impl ProfileHandler for Single {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        let name = run.only().to_owned();
        match run.profile(&name) {
            Some(primary) => Ok(HandlerResult::plain(primary)),
            None => Err(ScheduleError::Profile(name)),
        }
    }

    fn check(&self, profiles: usize) -> Result<(), ConfigError> {
        if profiles == 1 { Ok(()) } else { Err(ConfigError::SingleProfile(profiles)) }
    }
}
