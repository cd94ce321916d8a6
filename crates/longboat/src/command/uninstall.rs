//! `longboat uninstall`: removes what `install` wrote.

use std::time::Duration;

use super::cluster;
use crate::{cli::UninstallArgs, installer, runtime::runtime};

/// Runs `uninstall`.
pub(crate) fn run(args: &UninstallArgs) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let client = cluster::connect(&args.cluster).await?.client;
        let removal = installer::Removal {
            services: args.services,
            definitions: args.crds,
            dry_run: args.dry_run,
            limit: Duration::from_secs(args.timeout),
        };
        installer::uninstall(client, &removal).await
    })
}
