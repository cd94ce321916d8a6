//! `data-parallel-profile-handler`: sends the request to one port of the pod, and names the rank to use in a header.

use std::net::SocketAddr;

use longboat_api::sidecar_headers::RANK;

use crate::prelude::*;

parameters! {
    struct DataParallel {
        primary_port: u16 = 8000,
    }
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let handler: DataParallel = parameters.read()?;
    parameters.above_zero("primaryPort", handler.primary_port)?;
    Ok(Plugin::handler(handler))
}

/// Sends the request to this port of the primary targets, and names the rank in a header.
pub(super) fn send_to_port(port: u16, run: &Run<'_, '_>, picked: &mut HandlerResult) {
    let targets = &run.runs[picked.primary].targets;
    let destination = |&target| SocketAddr::new(run.context.endpoint(target).address.ip(), port).to_string();
    picked.destination = Some(targets.iter().map(destination).collect());
    picked.set.push((RANK, run.context.endpoint(targets[0]).host_port.clone()));
}

impl ProfileHandler for DataParallel {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        let primary = run.only_profile()?;
        let mut picked = HandlerResult::plain(primary);
        send_to_port(self.primary_port, run, &mut picked);
        Ok(picked)
    }

    fn takes_one_profile(&self) -> bool {
        true
    }
}
