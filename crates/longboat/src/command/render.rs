//! `longboat render`: the objects that the controller would write.

use std::process::ExitCode;

use longboat_offline::{
    render,
    scene::{PlanningError, Scene, Subject},
};
use serde_json::Value;

use super::{runtime, world};
use crate::{
    cli::{Format, RenderArgs},
    printer,
};

/// Runs `render` to its end.
pub(crate) fn run(args: &RenderArgs) -> ExitCode {
    match render(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            printer::error(&error, None);
            ExitCode::FAILURE
        }
    }
}

/// Prints what can be printed; false where something is missing.
fn render(args: &RenderArgs) -> anyhow::Result<bool> {
    let documents = world::documents(&args.world.files())?;
    let settings = world::settings(&args.world)?;
    let scene = if args.live {
        let namespaces = world::namespaces(&documents, &settings);
        let observed = runtime()?.block_on(world::observe(&args.cluster, &settings, namespaces))?;
        world::on_top(observed, &documents, &settings)?
    } else {
        Scene::new(&documents, &settings)?
    };
    let asked: Vec<&Subject> = scene.subjects.iter().filter(|subject| subject.given).collect();
    if asked.is_empty() {
        return Err(world::no_service(&documents));
    }
    let mut complete = true;
    let mut values: Vec<Value> = Vec::new();
    let services: Vec<_> = asked.iter().map(|subject| subject.service.as_ref()).collect();
    let mut all = if args.effective { Vec::new() } else { render::all(&scene, &services) }.into_iter();
    for service in services {
        let metadata = &service.metadata;
        let name = format!(
            "{}/{}",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        );
        let failed = || format!("{name} cannot be rendered");
        // One that cannot be rendered is no reason to keep the others back.
        let mut or_say = |error: PlanningError| {
            complete = false;
            printer::error(&anyhow::Error::new(error).context(failed()), None);
        };
        if args.effective {
            match render::effective(&scene, service) {
                Ok((value, notes)) => {
                    world::tell(&name, &notes);
                    values.push(value);
                }
                Err(error) => or_say(error),
            }
            continue;
        }
        let Some(rendered) = all.next() else { break };
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(error) => {
                or_say(error);
                continue;
            }
        };
        world::tell(&name, &rendered.notes);
        for gone in &rendered.removed {
            printer::note(&format!("{name}: {gone} would be removed"));
        }
        complete &= !rendered.incomplete;
        values.extend(rendered.objects.into_iter().map(|object| object.value));
    }
    match args.output {
        Format::Yaml => {
            printer::piece(&render::to_yaml(&values));
        }
        Format::Json => printer::line(&render::to_json(&values)),
    }
    Ok(complete)
}
