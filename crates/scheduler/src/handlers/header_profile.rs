//! `header-profile-handler` (alpha): a request header names the profile.

use crate::prelude::*;

const HEADER: &str = "epp-profile";
const DEFAULT: &str = "decode";

pub(crate) struct HeaderProfile;

impl ProfileHandler for HeaderProfile {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        let name =
            run.context.request.headers.header(HEADER).filter(|name| !name.is_empty()).unwrap_or(DEFAULT);
        match run.profile(name) {
            Some(primary) => Ok(HandlerResult::plain(primary)),
            None if run.has_profile(name) => Err(ScheduleError::Filtered),
            None => Err(ScheduleError::NoProfile(run.context.request.id.to_owned())),
        }
    }
}
