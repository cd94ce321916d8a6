//! `longboat diff`: the changes that applying manifests would make.

use longboat_key::Namespace;
use longboat_offline::{
    Settings,
    diff::{self, ChildChange, Difference},
    scene::{Scene, Subject},
};
use serde::Serialize;

use super::{cluster, diff_objects, exit_code::Comparison, input};
use crate::{cli::DiffArgs, printer, runtime::runtime};

/// One entry of the output as data.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Service(&'a Difference),
    Object(&'a ChildChange),
}

/// Prints the differences, and reports the services that cannot be compared.
pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Comparison> {
    let documents = input::documents(&args.manifests.files())?;
    let mut settings = input::settings(&args.environment)?;
    diff_objects::have_namespace(&documents, &args.environment)?;
    let from = args.from();
    let live = from.is_empty() && args.from_presets.is_none();
    let (before, after, (objects, unknown)) = if live {
        runtime()?.block_on(async {
            let client = cluster::connect(&args.look.cluster).await?.client;
            if args.environment.namespace.is_none() {
                settings.namespace = Namespace(client.default_namespace()).to_shared();
            }
            let namespaces = input::namespaces(&documents, &settings);
            diff_objects::namespaces_exist(&client, &documents, &namespaces).await?;
            let objects = diff_objects::with_cluster(&client, &documents, &settings).await;
            let (observed, hidden) = input::observe_with(client, &settings, namespaces).await?;
            for sentence in hidden {
                printer::labelled("note:", sentence);
            }
            let before = Scene::observed(observed.clone())?;
            anyhow::Ok((before, input::on_top(observed, &documents, &settings)?, objects))
        })?
    } else {
        // With other presets, both sides have the same manifests. With other manifests, both sides have the same presets.
        let old = if from.is_empty() { documents.clone() } else { input::documents(&from)? };
        let presets = match args.from_presets.as_deref() {
            Some(path) if path.as_os_str() == "builtin" => input::presets(None)?,
            Some(path) => input::presets(Some(path))?,
            None => settings.presets.clone(),
        };
        let before = Scene::new(&old, &Settings { presets, ..settings.clone() })?;
        (before, Scene::new(&documents, &settings)?, (diff_objects::between(&old, &documents), Vec::new()))
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
    let differs = !objects.is_empty() || differences.iter().any(|difference| !difference.is_empty());
    let entries = differences.iter().map(Entry::Service).chain(objects.iter().map(Entry::Object));
    printer::output(&entries.collect::<Vec<_>>(), args.look.output, || {
        diff::to_text(&differences) + &diff::objects_to_text(&objects)
    })?;
    let is_stopped = differences.iter().any(|difference| difference.problem.is_some());
    let is_complete = failed.is_empty() && unknown.is_empty() && unwritable == 0 && !is_stopped;
    for error in failed.into_iter().map(Into::into).chain(unknown) {
        printer::error(&error, None);
    }
    Ok(Comparison { is_complete, differs })
}
