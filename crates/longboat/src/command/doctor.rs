//! `longboat doctor`: finds out why something does not work, and what to do.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
};

use longboat_doctor::{
    Finding, Severity, examine,
    gather::{self, Scope},
    to_text,
};
use longboat_key::{Name, Namespace};
use owo_colors::OwoColorize;

use super::{cluster, runtime};
use crate::{
    cli::{DoctorArgs, OutputFormat},
    printer,
    up::service,
};

/// Runs `doctor`.
pub(crate) fn run(args: DoctorArgs) -> ExitCode {
    let output = args.output;
    match runtime().and_then(|runtime| runtime.block_on(run_checks(args))) {
        Ok((findings, missing)) => {
            let broken = findings.iter().any(|finding| finding.severity == Severity::Broken);
            match output {
                OutputFormat::Json | OutputFormat::Yaml => {
                    if let Err(error) = printer::data(&findings, output) {
                        return super::report(Err(error));
                    }
                }
                OutputFormat::Text if findings.is_empty() && missing.is_empty() => {
                    printer::note("No problems found.");
                }
                OutputFormat::Text => {
                    printer::piece(&to_text(&findings));
                }
            }
            if !missing.is_empty() {
                let error = anyhow::anyhow!("LLMInferenceService {} not found", missing.join(", "));
                return super::report(Err(error));
            }
            if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            printer::error(&error, None);
            ExitCode::FAILURE
        }
    }
}

/// Returns the findings, and the requested services that do not exist.
async fn run_checks(args: DoctorArgs) -> anyhow::Result<(Vec<Finding>, Vec<String>)> {
    let client = cluster::connect(&args.cluster).await?.client;
    if let Some(namespace) = &args.namespace {
        cluster::namespace_exists(&client, namespace).await?;
    }
    // As in kubectl, a name without a namespace refers to the context's namespace.
    let named = (!args.services.is_empty()).then(|| Namespace(client.default_namespace()).to_shared());
    let namespace = args.namespace.or(named);
    let scope = Scope {
        system_namespace: args.system_namespace,
        preset_prefix: args.preset_prefix,
        namespaces: namespace.clone().into_iter().collect(),
        services: args.services,
        ask: !args.no_requests,
    };
    let http = reqwest::Client::builder()
        // The only question is whether the service answers, so its certificate does not matter.
        .danger_accept_invalid_certs(true)
        .build()?;
    let ask = |url: String, address: Option<IpAddr>| {
        let http = http.clone();
        async move {
            let host = url.parse::<http::Uri>().ok().and_then(|url| Some(url.host()?.to_owned()));
            // The client takes the port of the URL.
            let resolved = host.zip(address.map(|address| SocketAddr::new(address, 0)));
            let local = resolved.and_then(|resolved| service::http(Some(resolved)).ok());
            let http = local.unwrap_or(http);
            match http.get(url).send().await {
                Ok(response) => Ok(response.status().as_u16()),
                Err(error) => Err(longboat_tls::innermost(&error)),
            }
        }
    };
    let facts = Box::pin(gather::gather(client, &scope, ask)).await?;
    for sentence in &facts.hidden {
        printer::note(&format!("{} {sentence}", "not checked:".bold()));
    }
    let is_there =
        |name: &&Name| facts.services.iter().any(|found| Name::of(&found.metadata) == name.as_deref());
    let missing = scope.services.iter().filter(|name| !is_there(name));
    let missing = missing.map(|name| format!("{}/{name}", namespace.as_deref().unwrap_or_default()));
    let missing = missing.collect();
    Ok((examine(&facts), missing))
}
