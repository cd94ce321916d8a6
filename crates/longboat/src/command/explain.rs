//! `longboat explain`: shows which layer set a field.

use std::path::Path;

use anyhow::bail;
use longboat_key::{Key, Namespace};
use longboat_offline::{
    explain::{self, ExplainError, Explanation},
    scene::{Scene, Subject},
};

use super::input;
use crate::{
    cli::{ExplainArgs, OutputFormat},
    printer,
    runtime::runtime,
};

/// Explains the requested services.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let settings = input::settings(&args.environment)?;
    let scene;
    let documents;
    let mut name = args.service.as_deref();
    if is_file(&args.target) {
        documents = input::documents(&args.files_with_target())?;
        scene = Scene::new(&documents, &settings)?;
    } else {
        name = Some(&args.target);
        let files = args.files();
        documents = if files.is_empty() { Vec::new() } else { input::documents(&files)? };
        let (namespace, _) = args.target.split_once('/').unwrap_or((&settings.namespace, ""));
        let namespaces = vec![Namespace(namespace).to_shared()];
        let observed = runtime()?.block_on(input::observe(&args.look.cluster, &settings, namespaces))?;
        scene = input::on_top(observed, &documents, &settings)?;
    }
    // Refused manifests cannot be explained, but the others can.
    let mut accepted = input::is_accepted(&scene);
    let subjects: Vec<&Subject> =
        scene.subjects.iter().filter(|subject| is_named(subject, name, &settings.namespace)).collect();
    if subjects.is_empty() && !accepted {
        return Err(input::refused());
    }
    if subjects.is_empty() {
        let known: Vec<String> = scene.subjects.iter().map(full_name).collect();
        match (name, known.as_slice()) {
            (Some(name), []) => {
                bail!("LLMInferenceService `{name}` not found; there are no LLMInferenceServices")
            }
            (Some(name), known) => {
                bail!("LLMInferenceService `{name}` not found; found: {}", known.join(", "))
            }
            (None, _) => return Err(input::no_service(&documents)),
        }
    }
    let (mut answers, mut failed, mut unknown) = (Vec::new(), Vec::new(), None);
    for subject in &subjects {
        match explain::explain(&scene, &subject.service, args.path.as_deref()) {
            Ok(answer) => answers.push(answer),
            // If there are several services, some may not have the field.
            Err(error @ (ExplainError::Unknown { .. } | ExplainError::Unset { .. })) => unknown = Some(error),
            Err(error) => {
                failed.push(
                    anyhow::Error::new(error).context(format!("cannot explain {}", full_name(subject))),
                );
            }
        }
    }
    if let Some(error) = unknown.filter(|_| answers.is_empty() && failed.is_empty()) {
        return Err(error.into());
    }
    if !answers.is_empty() {
        print(&answers, args.look.output)?;
    }
    for subject in subjects {
        accepted &= input::is_writable(&scene, &subject.service);
        input::print_warnings(&scene, &subject.service);
    }
    // The other errors are reported as well.
    let Some(last) = failed.pop() else {
        return if accepted { Ok(()) } else { Err(input::refused()) };
    };
    for error in &failed {
        printer::error(error, None);
    }
    Err(last)
}

fn print(answers: &[Explanation], format: OutputFormat) -> anyhow::Result<()> {
    if format != OutputFormat::Text {
        return match answers {
            [one] => printer::data(one, format),
            several => printer::data(&several, format),
        };
    }
    for (number, answer) in answers.iter().enumerate() {
        if number > 0 {
            printer::line("");
        }
        printer::lines(&answer.to_text());
    }
    Ok(())
}

/// Whether the target is a file: it exists, or its name looks like a manifest. Otherwise it is the name of a service.
fn is_file(target: &str) -> bool {
    let path = Path::new(target);
    let manifest = path.extension().is_some_and(|extension| {
        ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    });
    target == "-" || manifest || path.exists()
}

fn is_named(subject: &Subject, name: Option<&str>, namespace: &str) -> bool {
    match name {
        None => subject.given,
        Some(name) if name.contains('/') => full_name(subject) == name,
        Some(name) if subject.given => subject.service.metadata.name.as_deref() == Some(name),
        Some(name) => full_name(subject) == format!("{namespace}/{name}"),
    }
}

fn full_name(subject: &Subject) -> String {
    Key::of(subject.service.as_ref()).to_string()
}
