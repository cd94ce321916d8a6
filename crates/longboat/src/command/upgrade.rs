//! `longboat upgrade --plan`: shows what this build would change in the services of a cluster.

use std::process::ExitCode;

use longboat_compose::PresetNames;
use longboat_offline::{Settings, scene::Scene, upgrade};

use super::{input, runtime};
use crate::{
    cli::{OutputFormat, UpgradeArgs},
    printer,
};

/// The exit code of a failure. As in `diff`: 0 if nothing would change, 1 if something would change, 2 if this is unknown.
const FAILED: u8 = 2;

/// Runs `upgrade --plan`.
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
    // Reads all namespaces, because presets concern all of them.
    let observed = runtime()?.block_on(input::observe(&args.cluster, &settings, Vec::new()))?;
    let before = Scene::observed(observed.clone())?;
    let after = Scene::upgraded(observed, &settings)?;
    let (upgrade, failed) = upgrade::plan(&before, &after);
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => printer::data(&upgrade, args.output)?,
        OutputFormat::Text => {
            printer::piece(&upgrade.to_text());
        }
    }
    let code = match (!failed.is_empty() || upgrade.is_incomplete(), upgrade.is_empty()) {
        (true, _) => ExitCode::from(FAILED),
        (false, false) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
    };
    for error in failed {
        printer::error(&error.into(), None);
    }
    Ok(code)
}
