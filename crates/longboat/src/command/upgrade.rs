//! `longboat upgrade --plan`: shows what this build would change in the services of a cluster.

use longboat_compose::PresetNames;
use longboat_offline::{Settings, scene::Scene, upgrade};

use super::{exit_code::Comparison, input};
use crate::{cli::UpgradeArgs, printer, runtime::runtime};

/// Prints what would change, and reports the services that cannot be planned.
pub(crate) fn run(args: &UpgradeArgs) -> anyhow::Result<Comparison> {
    let settings = Settings {
        system_namespace: args.system_namespace.clone(),
        preset_names: PresetNames { prefix: args.preset_prefix.clone(), versioned: true },
        ..Settings::default()
    };
    // Reads all namespaces, because presets concern all of them.
    let observed = runtime()?.block_on(input::observe(&args.look.cluster, &settings, Vec::new()))?;
    let before = Scene::observed(observed.clone())?;
    let after = Scene::upgraded(observed, &settings, args.image.as_deref())?;
    let (upgrade, failed) = upgrade::plan(&before, &after);
    printer::output(&upgrade, args.look.output, || upgrade.to_text())?;
    let is_complete = failed.is_empty() && !upgrade.is_incomplete();
    let compared = Comparison { is_complete, differs: !upgrade.is_empty() };
    for error in failed {
        printer::error(&error.into(), None);
    }
    Ok(compared)
}
