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

impl ProfileHandler for DataParallel {
    fn run(&self, run: &mut Run<'_, '_>) -> Result<HandlerResult, ScheduleError> {
        let primary = run.only_profile()?;
        let targets = &run.runs[primary].targets;
        let destination = targets
            .iter()
            .map(|&target| {
                let address = run.context.endpoint(target).address;
                SocketAddr::new(address.ip(), self.primary_port).to_string()
            })
            .collect();
        let rank = run.context.endpoint(targets[0]).host_port.clone();
        Ok(HandlerResult {
            destination: Some(destination),
            set: vec![(RANK, rank)],
            ..HandlerResult::plain(primary)
        })
    }

    fn takes_one_profile(&self) -> bool {
        true
    }
}
