//! `header-profile-handler` (alpha): a request header names the profile.

use crate::prelude::*;

parameters! {
    struct HeaderProfile {
        header_name: String,
        default_profile: String,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: HeaderProfile = parameters.read()?;
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    Ok(Plugin::handler(HeaderProfile {
        header_name: or(&raw.header_name.trim().to_ascii_lowercase(), "epp-profile"),
        default_profile: or(raw.default_profile.trim(), "decode"),
    }))
}

impl ProfileHandler for HeaderProfile {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        if run.profiles.len() == 1 {
            return run.only_profile().map(HandlerResult::plain);
        }
        let name = run.context.request.headers.header(&self.header_name).map(str::trim);
        let name = name.filter(|name| !name.is_empty()).unwrap_or(&self.default_profile);
        match run.profile(name) {
            Some(primary) => Ok(HandlerResult::plain(primary)),
            None if run.has_profile(name) => Err(ScheduleError::filtered_by(name)),
            None => Err(ScheduleError::NoProfile(run.context.request.id.to_owned())),
        }
    }
}
