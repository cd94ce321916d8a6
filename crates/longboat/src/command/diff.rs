//! `longboat diff`: the changes that applying manifests would make.

use longboat_offline::{
    Settings, diff,
    scene::{Scene, Subject},
};

use super::{exit_code::Comparison, input};
use crate::{cli::DiffArgs, printer, runtime::runtime};

/// Prints the differences, and reports the services that cannot be compared.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Comparison> {
    let documents = input::documents(&args.manifests.files())?;
    let settings = input::settings(&args.environment)?;
    input::has_own_kinds(&documents)?;
    let from = args.from();
    let live = from.is_empty() && args.from_presets.is_none();
    let (before, after) = if live {
        let namespaces = input::namespaces(&documents, &settings);
        let observed = runtime()?.block_on(input::observe(&args.look.cluster, &settings, namespaces))?;
        (Scene::observed(observed.clone())?, input::on_top(observed, &documents, &settings)?)
    } else {
        // With other presets, both sides have the same manifests. With other manifests, both sides have the same presets.
        let old = if from.is_empty() { documents.clone() } else { input::documents(&from)? };
        let presets = match args.from_presets.as_deref() {
            Some(path) if path.as_os_str() == "builtin" => input::presets(None)?,
            Some(path) => input::presets(Some(path))?,
            None => settings.presets.clone(),
        };
        let before = Scene::new(&old, &Settings { presets, ..settings.clone() })?;
        (before, Scene::new(&documents, &settings)?)
    };
    // A refused manifest would change nothing, so its differences are unknown.
    let is_before_accepted = from.is_empty() || input::is_accepted(&before);
    if !input::is_accepted(&after) || !is_before_accepted {
        return Err(input::refused());
    }
    let is_writable = |subject: &Subject| input::is_writable(&before, &subject.service);
    let unwritable =
        before.subjects.iter().filter(|_| !from.is_empty()).filter(|one| !is_writable(one)).count();
    for subject in after.subjects.iter().filter(|subject| subject.given) {
        input::print_warnings(&after, &subject.service);
    }
    let (differences, failed) = diff::diff(&before, &after, live);
    let differs = differences.iter().any(|difference| !difference.is_empty());
    printer::output(&differences, args.look.output, || diff::to_text(&differences))?;
    let is_stopped = differences.iter().any(|difference| difference.problem.is_some());
    let is_complete = failed.is_empty() && unwritable == 0 && !is_stopped;
    for error in failed {
        printer::error(&error.into(), None);
    }
    Ok(Comparison { is_complete, differs })
}
