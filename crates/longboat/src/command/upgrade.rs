//! `longboat upgrade --plan`: what this build would change about the services of a cluster.

use std::process::ExitCode;

use longboat_compose::PresetNames;
use longboat_offline::{Settings, scene::Scene, upgrade};

use super::{runtime, world};
use crate::{
    cli::{Shown, UpgradeArgs},
    printer,
};

/// As `diff`: 0 where nothing would change, 1 where something would, 2 where nobody can say.
const FAILED: u8 = 2;

/// Runs `upgrade --plan` to its end.
pub(crate) fn run(args: &UpgradeArgs) -> ExitCode {
    match planned(args) {
        Ok(code) => code,
        Err(error) => {
            printer::error(&error, None);
            ExitCode::from(FAILED)
        }
    }
}

fn planned(args: &UpgradeArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings {
        system_namespace: args.system_namespace.clone(),
        preset_names: PresetNames { prefix: args.preset_prefix.clone(), versioned: true },
        ..Settings::default()
    };
    // All namespaces: presets are everybody's.
    let observed = runtime()?.block_on(world::observe(&args.cluster, &settings, Vec::new()))?;
    let before = Scene::observed(observed.clone())?;
    let after = Scene::upgraded(observed, &settings)?;
    let (upgrade, failed) = upgrade::plan(&before, &after);
    match args.output {
        Shown::Json | Shown::Yaml => printer::data(&upgrade, args.output)?,
        Shown::Text => {
            printer::piece(&upgrade.to_text());
        }
    }
    let code = match (failed.is_empty(), upgrade.is_empty()) {
        (false, _) => ExitCode::from(FAILED),
        (true, false) => ExitCode::FAILURE,
        (true, true) => ExitCode::SUCCESS,
    };
    for error in failed {
        printer::error(&error.into(), None);
    }
    Ok(code)
}
