//! `longboat doctor`: why something does not work, and what to do about it.

use std::process::ExitCode;

use longboat_doctor::{
    Finding, Severity, examine,
    gather::{self, Scope},
    to_text,
};
use owo_colors::OwoColorize;

use super::{cluster, runtime};
use crate::{
    cli::{DoctorArgs, Shown},
    printer,
};

/// Runs `doctor` to its end.
pub(crate) fn run(args: DoctorArgs) -> ExitCode {
    let output = args.output;
    match runtime().and_then(|runtime| runtime.block_on(look(args))) {
        Ok(findings) => {
            let broken = findings.iter().any(|finding| finding.severity == Severity::Broken);
            match output {
                Shown::Json => printer::line(&serde_json::to_string_pretty(&findings).unwrap_or_default()),
                Shown::Text if findings.is_empty() => printer::note("Nothing is wrong."),
                Shown::Text => {
                    printer::piece(&to_text(&findings));
                }
            }
            if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            printer::error(&error, None);
            ExitCode::FAILURE
        }
    }
}

async fn look(args: DoctorArgs) -> anyhow::Result<Vec<Finding>> {
    let client = cluster::client(&args.cluster).await?;
    let scope = Scope {
        system_namespace: args.system_namespace,
        preset_prefix: args.preset_prefix,
        namespaces: args.namespace.into_iter().collect(),
        services: args.services,
        ask: !args.no_requests,
    };
    let http = reqwest::Client::builder()
        // Whether an answer comes is the question here, not who gives it.
        .danger_accept_invalid_certs(true)
        .build()?;
    let ask = |url: String| {
        let http = http.clone();
        async move {
            match http.get(url).send().await {
                Ok(response) => Ok(response.status().as_u16()),
                Err(error) => Err(innermost(&error)),
            }
        }
    };
    let facts = Box::pin(gather::gather(client, &scope, ask)).await?;
    for sentence in &facts.hidden {
        printer::note(&format!("{} {sentence}", "not looked at:".bold()));
    }
    Ok(examine(&facts))
}

/// What went wrong at last: the rest repeats the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
