//! `longboat doctor`: finds out why something does not work, and what to do.

use std::net::{IpAddr, SocketAddr};

use longboat_dashboard::local_client;
use longboat_doctor::{
    Finding, Severity, examine,
    gather::{self, Scope},
    to_text,
};
use longboat_key::{Name, Namespace};

use super::cluster;
use crate::{
    cli::{DoctorArgs, OutputFormat},
    printer,
    runtime::runtime,
};

/// Prints the findings. Returns `false` if something is broken.
pub(crate) fn run(args: DoctorArgs) -> anyhow::Result<bool> {
    let output = args.look.output;
    let (findings, missing) = runtime()?.block_on(run_checks(args))?;
    if output == OutputFormat::Text && findings.is_empty() && missing.is_empty() {
        printer::note("No problems found.");
    } else {
        printer::output(&findings, output, || to_text(&findings))?;
    }
    if !missing.is_empty() {
        anyhow::bail!("LLMInferenceService {} not found", missing.join(", "));
    }
    Ok(findings.iter().all(|finding| finding.severity != Severity::Broken))
}

/// Returns the findings, and the requested services that do not exist.
async fn run_checks(args: DoctorArgs) -> anyhow::Result<(Vec<Finding>, Vec<String>)> {
    let client = cluster::connect(&args.look.cluster).await?.client;
    cluster::namespace_exists(&client, args.namespace.as_ref()).await?;
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
            let local = resolved.and_then(|resolved| local_client(Some(resolved)).build().ok());
            let http = local.unwrap_or(http);
            match http.get(url).send().await {
                Ok(response) => Ok(response.status().as_u16()),
                Err(error) => Err(longboat_tls::innermost(&error)),
            }
        }
    };
    let facts = Box::pin(gather::gather(client, &scope, ask)).await?;
    for sentence in &facts.hidden {
        printer::labelled("not checked:", sentence);
    }
    let is_there =
        |name: &&Name| facts.services.iter().any(|found| Name::of(&found.metadata) == name.as_deref());
    let missing = scope.services.iter().filter(|name| !is_there(name));
    let missing = missing.map(|name| format!("{}/{name}", namespace.as_deref().unwrap_or_default()));
    let missing = missing.collect();
    Ok((examine(&facts), missing))
}
