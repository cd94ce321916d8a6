//! `longboat diff`: the changes that applying manifests would make.

use std::process::ExitCode;

use longboat_offline::{
    Settings, diff,
    scene::{Scene, Subject},
};

use super::{input, runtime};
use crate::{
    cli::{DiffArgs, OutputFormat},
    printer,
};

/// The exit code of a failure. As in `kubectl diff`: 0 without differences, 1 with differences, higher codes for failures.
const FAILED: u8 = 2;

/// Runs `diff`.
pub(crate) fn run(args: &DiffArgs) -> ExitCode {
    match differs(args) {
        Ok(code) => code,
        Err(error) => {
            printer::error(&error, None);
            ExitCode::from(FAILED)
        }
    }
}

/// Prints the differences, and reports the services that cannot be compared.
fn differs(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let documents = input::documents(&args.manifests.files())?;
    let settings = input::settings(&args.environment)?;
    let ours = ["LLMInferenceService", "LLMInferenceServiceConfig"];
    if !documents.iter().any(|document| ours.contains(&document.kind())) {
        return Err(input::no_service(&documents));
    }
    let from = args.from();
    let live = from.is_empty() && args.from_presets.is_none();
    let (before, after) = if live {
        let namespaces = input::namespaces(&documents, &settings);
        let observed = runtime()?.block_on(input::observe(&args.cluster, &settings, namespaces))?;
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
    let (differences, failed) = diff::diff(&before, &after, live);
    let any = differences.iter().any(|difference| !difference.is_empty());
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => printer::data(&differences, args.output)?,
        OutputFormat::Text => {
            printer::piece(&diff::to_text(&differences));
        }
    }
    let is_stopped = differences.iter().any(|difference| difference.problem.is_some());
    let is_incomplete = !failed.is_empty() || unwritable > 0 || is_stopped;
    for error in failed {
        printer::error(&error.into(), None);
    }
    Ok(match (is_incomplete, any) {
        (true, _) => ExitCode::from(FAILED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}
