//! `longboat validate`: checks manifests as a cluster would.

use std::process::ExitCode;

use longboat_manifest as manifest;
use longboat_offline::{
    Settings,
    validate::{Report, Severity, validate},
};
use longboat_plan::counted;
use owo_colors::OwoColorize;

use super::{finding::coloured, input};
use crate::{
    cli::{self, ValidateArgs},
    printer,
};

/// Prints the findings. Fails if one of them is an error.
pub(crate) fn run(args: ValidateArgs) -> ExitCode {
    // Schemas nest deeply, and debug builds have large frames.
    let output = args.output;
    let worker = std::thread::Builder::new().stack_size(super::STACK).spawn(move || examine(&args));
    let report = match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(report))) => report,
        Ok(Ok(Err(error))) => return super::report(Err(error)),
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => return super::report(Err(error.into())),
    };
    match output {
        cli::OutputFormat::Text => print(&report),
        cli::OutputFormat::Json | cli::OutputFormat::Yaml => {
            if let Err(error) = printer::data(&report.findings, output) {
                return super::report(Err(error));
            }
        }
    }
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    printer::note(&format!(
        "{} checked: {}, {}",
        counted(report.checked.len(), "object"),
        counted(report.count(Severity::Error), "error"),
        counted(report.count(Severity::Warning), "warning"),
    ));
}
