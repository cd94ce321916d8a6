//! Several services in one simulation: each is a pool, and requests go to the pool that serves their model. Pools share nothing, so
//! each is simulated alone with its part of the traffic.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, anyhow, bail};
use longboat_simulate::{
    Difference, ModelRoutes, Report, RoutedRequests, advice, differences,
    page::{self, Section},
    trace::Requests,
};
use serde::Serialize;

use super::{of_trace, one, requests, service::ServiceModel, table};
use crate::{
    cli::{OutputFormat, SimulateArgs},
    printer,
};

/// The results of a pool.
#[derive(Debug, Serialize)]
struct PoolResult<'a> {
    name: &'a str,
    models: Vec<&'a str>,
    reports: Vec<Report>,
    differences: Vec<Difference>,
    advice: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Results<'a> {
    pools: Vec<PoolResult<'a>>,
    /// The sum of the pools, for each policy.
    sum: Vec<Report>,
    /// Requests for models that no pool serves.
    unknown_models: &'a BTreeMap<String, u64>,
}

/// Simulates the services.
pub(super) fn run(args: &SimulateArgs, services: &[ServiceModel]) -> anyhow::Result<()> {
    check(args)?;
    let serves: Vec<_> = services.iter().map(|service| service.serves.clone()).collect();
    let routes = ModelRoutes::new(&serves).map_err(|(name, first, other)| {
        anyhow!(
            "services {} and {} both serve `{name}`, and shares of a model's traffic are not simulated: simulate them one at a time",
            services[first].name,
            services[other].name
        )
    })?;
    let traffic = split_traffic(args, &routes, services)?;
    let mut pools = Vec::new();
    for (index, service) in services.iter().enumerate() {
        let models = service.short_names();
        if traffic.pools[index] == 0 {
            printer::note(&format!("{}: no request asks for {}", service.name, models.join(" or ")));
            continue;
        }
        let own = || -> anyhow::Result<Requests<'_>> {
            let is_own = |request: &Result<_, _>| {
                request.as_ref().map_or(true, |request| routes.pool(request) == Some(index))
            };
            Ok(Box::new(requests(args)?.filter(is_own)))
        };
        let reports = service
            .policies
            .iter()
            .map(|policy| one(args, service, policy, None, own()?))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let differences = differences(&reports);
        let advice = advice(&reports, &differences);
        pools.push(PoolResult { name: &service.name, models, reports, differences, advice });
    }
    let columns = pools.first().map_or(0, |pool| pool.reports.len());
    let unknown = traffic.unknown.values().sum();
    let sum = (0..columns).map(|column| {
        let parts: Vec<&Report> = pools.iter().map(|pool| &pool.reports[column]).collect();
        // Without --config, each pool has the policy of its service.
        let name = if args.configs.is_empty() { "all pools" } else { &parts[0].policy };
        Report::sum(name, &parts, unknown)
    });
    let sum = sum.collect();
    print(args, &Results { pools, sum, unknown_models: &traffic.unknown })
}

/// Refuses flags about the pool: with several, it is not clear which is meant.
fn check(args: &SimulateArgs) -> anyhow::Result<()> {
    let given = [
        ("--sweep", args.sweep.is_some()),
        ("--replicas", !args.replicas.is_empty()),
        ("--autoscale", args.autoscale.is_some()),
        ("--at", !args.changes.is_empty()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            bail!("{flag} is about one service, and the manifests contain several: simulate one at a time")
        }
        None => Ok(()),
    }
}

/// Counts the requests of each pool.
fn split_traffic(
    args: &SimulateArgs,
    routes: &ModelRoutes,
    services: &[ServiceModel],
) -> anyhow::Result<RoutedRequests> {
    let mut failed = None;
    // The first line that cannot be read ends the count.
    let readable = requests(args)?.map_while(|request| request.map_err(|error| failed = Some(error)).ok());
    let traffic = routes.count(services.len(), readable);
    if let Some(error) = failed {
        return Err(of_trace(args, error.into()));
    }
    if traffic.pools.iter().all(|requests| *requests == 0) {
        let serves: Vec<&str> = services.iter().flat_map(ServiceModel::short_names).collect();
        let advice = if args.generate.is_some() {
            "made-up traffic names no model: pass a trace whose requests have one".to_owned()
        } else {
            format!("the traffic has {}", unknown_models(&traffic.unknown))
        };
        bail!("no request asks for a model of the services, which are {}; {advice}", serves.join(", "));
    }
    Ok(traffic)
}

fn unknown_models(unknown: &BTreeMap<String, u64>) -> String {
    let names = unknown.iter().map(|(name, count)| match name.as_str() {
        "" => format!("{count} for others or without a model"),
        name => format!("{count} for `{name}`"),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn print(args: &SimulateArgs, results: &Results<'_>) -> anyhow::Result<()> {
    let Results { pools, sum, unknown_models: unknown } = results;
    let heading = |pool: &PoolResult<'_>| format!("{} serves {}", pool.name, pool.models.join(", "));
    let refused = (!unknown.is_empty())
        .then(|| format!("requests for models that no pool serves are refused: {}", unknown_models(unknown)));
    let refused: Vec<String> = refused.into_iter().collect();
    let headings: Vec<String> = pools.iter().map(heading).collect();
    if let Some(file) = &args.html {
        let sections = pools.iter().zip(&headings).map(|(pool, heading)| Section {
            heading,
            reports: &pool.reports,
            sentences: &pool.advice,
        });
        let all = Section { heading: "all pools", reports: sum, sentences: &refused };
        let sections: Vec<Section<'_>> = sections.chain([all]).collect();
        fs::write(file, page::html("longboat simulate", &sections))
            .with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    if args.output != OutputFormat::Text {
        return printer::data(results, args.output);
    }
    for (pool, heading) in pools.iter().zip(&headings) {
        printer::line(heading);
        printer::write_piece(&table(&pool.reports));
        for sentence in &pool.advice {
            printer::line(sentence);
        }
        printer::line("");
    }
    printer::line("all pools");
    printer::write_piece(&table(sum));
    for sentence in &refused {
        printer::line(sentence);
    }
    Ok(())
}
