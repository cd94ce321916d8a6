//! `longboat render`: prints the objects that the controller would write.

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_key::Key;
use longboat_offline::{
    render::{self, ServiceRendering},
    scene::{PlanningError, Scene, Subject},
};
use serde_json::Value;

use super::input;
use crate::{
    cli::{Format, RenderArgs},
    printer,
    runtime::runtime,
};

/// Prints the objects. Returns `false` if something could not be rendered.
pub(crate) fn run(args: &RenderArgs) -> anyhow::Result<bool> {
    let documents = input::documents(&args.manifests.files())?;
    let settings = input::settings(&args.environment)?;
    let scene = if args.live {
        let namespaces = input::namespaces(&documents, &settings);
        let observed = runtime()?.block_on(input::observe(&args.cluster, &settings, namespaces))?;
        input::on_top(observed, &documents, &settings)?
    } else {
        Scene::new(&documents, &settings)?
    };
    // Refused manifests are not rendered, but the others are.
    let mut complete = input::is_accepted(&scene);
    let subjects: Vec<&Subject> = scene.subjects.iter().filter(|subject| subject.given).collect();
    if subjects.is_empty() && !complete {
        return Ok(false);
    }
    if subjects.is_empty() {
        return Err(input::no_service(&documents));
    }
    let services: Vec<_> = subjects.iter().map(|subject| subject.service.as_ref()).collect();
    if args.effective {
        let specs = services.iter().map(|service| render::effective(&scene, service));
        let mut values = Vec::new();
        for (service, effective) in services.iter().zip(specs) {
            match effective {
                Ok((value, notes)) => {
                    input::print_notes(&Key::of(*service), &notes);
                    values.push(value);
                }
                Err(error) => complete = failed(service, error),
            }
        }
        match args.output {
            Format::Yaml => {
                printer::write_piece(&render::to_yaml(&values));
            }
            Format::Json => {
                printer::write_piece(&format!("{}\n", render::to_json(&values)));
            }
        }
        return Ok(complete);
    }
    match args.output {
        Format::Yaml => {
            let all = render::all(&scene, &services, render::documents);
            for rendered in services.iter().zip(all).filter_map(|(s, r)| reported(s, r, &mut complete)) {
                printer::write_piece(&rendered);
            }
        }
        Format::Json => {
            let all = render::all(&scene, &services, render::children);
            let objects =
                services.iter().zip(all).filter_map(|(s, r)| reported(s, r, &mut complete)).flatten();
            let values: Vec<Value> = objects.map(|object| object.value).collect();
            printer::write_piece(&format!("{}\n", render::to_json(&values)));
        }
    }
    Ok(complete)
}

/// Returns the objects of a service after printing the notes about them.
fn reported<T>(
    service: &LLMInferenceService,
    rendered: Result<ServiceRendering<T>, PlanningError>,
    complete: &mut bool,
) -> Option<T> {
    match rendered {
        Ok(rendered) => {
            let name = Key::of(service);
            input::print_notes(&name, &rendered.notes);
            for gone in &rendered.removed {
                printer::note(&format!("{name}: the controller would remove {gone}"));
            }
            *complete &= !rendered.incomplete;
            Some(rendered.objects)
        }
        Err(error) => {
            *complete = failed(service, error);
            None
        }
    }
}

/// Reports that a service cannot be rendered. The other services are still rendered, but the result is incomplete.
fn failed(service: &LLMInferenceService, error: PlanningError) -> bool {
    let context = format!("cannot render {}", Key::of(service));
    printer::error(&anyhow::Error::new(error).context(context), None);
    false
}
