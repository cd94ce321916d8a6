//! `single-profile-handler`: runs the only profile.

use std::sync::Arc;

use crate::prelude::*;

struct Single;

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    parameters.read::<NoParameters>()?;
    Ok(Plugin::handler(Single))
}

/// The handler of configurations that declare none.
pub(crate) fn new() -> Arc<dyn ProfileHandler> {
    Arc::new(Single)
}

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
