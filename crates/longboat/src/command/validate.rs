//! `longboat validate`: checks manifests as a cluster would.

use longboat_manifest as manifest;
use longboat_offline::{
    Settings,
    validate::{Report, Severity, validate},
};
use longboat_plan::counted;
use owo_colors::OwoColorize;

use super::{finding::coloured, input};
use crate::{
    cli::{OutputFormat, ValidateArgs},
    printer,
    runtime::STACK,
};

/// Prints the findings. Returns `false` if one of them is an error.
pub(crate) fn run(args: ValidateArgs) -> anyhow::Result<bool> {
    let output = args.output;
    // Schemas nest deeply, and debug builds have large frames.
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(move || examine(&args))?;
    let report = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    match output {
        OutputFormat::Text => print(&report),
        OutputFormat::Json | OutputFormat::Yaml => printer::data(&report.findings, output)?,
    }
    Ok(report.is_clean())
}

fn examine(args: &ValidateArgs) -> anyhow::Result<Report> {
    let settings = Settings {
        presets: input::presets(args.platform.presets.as_deref())?,
        platform: input::platform(args.platform.platform.as_deref())?,
        ..Settings::default()
    };
    Ok(validate(manifest::read_all(&args.manifests.files()), &settings))
}

fn print(report: &Report) {
    for (object, is_sound) in &report.checked {
        if *is_sound {
            printer::line(&format!("{object}: {}", "ok".green()));
        }
    }
    for finding in &report.findings {
        let text = coloured(finding);
        match finding.severity {
            Severity::Note => printer::note(&text),
            Severity::Error | Severity::Warning => printer::line(&text),
        }
    }
    let found = |severity, noun| counted(report.count(severity), noun);
    let mut counts = vec![found(Severity::Error, "error"), found(Severity::Warning, "warning")];
    if report.count(Severity::Note) > 0 {
        counts.push(found(Severity::Note, "note"));
    }
    let objects = counted(report.checked.len(), "object");
    printer::note(&format!("{objects} checked: {}", counts.join(", ")));
}
