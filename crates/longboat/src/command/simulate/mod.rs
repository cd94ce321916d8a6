//! `longboat simulate`: what a pool would do with traffic.

mod calibrate;
mod pools;
mod service;
mod what_if;

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{BufReader, BufWriter, Write as _},
    iter,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use longboat_plan::counted;
use longboat_simulate::{
    PickerSettings, Policy, PoolChange, Report, RunError, Settings, Sharing, Slo, advice, differences,
    generate::{self, Traffic},
    page::{self, Section},
    run as simulate,
    sweep::{Condition, Sweep, SweepResult},
    trace::{Requests, TraceError, TraceRequest},
    workload::Workload,
};
use owo_colors::OwoColorize;
use serde_json::json;

use self::service::ServiceModel;
pub(crate) use self::what_if::what_if;
use crate::{
    cli::{OutputFormat, SimulateArgs, SimulateCommand},
    printer,
    runtime::runtime,
};

/// One decision in so many is examined for what decided it.
const EXPLAIN_EVERY: u64 = 16;
/// The error without traffic.
const NO_TRAFFIC: &str = "no traffic given: pass a trace (--trace FILE), a workload of inference-perf (--workload FILE) or a kind of \
                          made-up traffic (--generate sessions)";
/// Progress is printed once for so many requests, which take seconds.
const PROGRESS_REQUESTS: u64 = 100_000;

/// Runs `simulate`.
pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    if let Some(SimulateCommand::Calibrate(args)) = &args.command {
        return runtime()?.block_on(calibrate::run(args));
    }
    if let Some(file) = &args.write_trace {
        return write_trace(args, file);
    }
    // What a run assumes means nothing to a person whose command has no traffic.
    if (args.generate.is_none(), &args.workload, &args.trace) == (true, &None, &None) {
        bail!(NO_TRAFFIC);
    }
    let mut models = service::models(args)?;
    // Services with the same engines have the same notes.
    for note in models.iter().flat_map(|model| &model.notes).collect::<BTreeSet<_>>() {
        printer::note(note);
    }
    if !args.configs.is_empty() {
        let policies = policies(&args.configs)?;
        for model in &mut models {
            model.policies.clone_from(&policies);
        }
    }
    if let Some(file) = &args.html {
        // A page that cannot be written is better known before the runs than after them. What is in the file stays until then.
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened.with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    if args.pickers == 1 && args.picker_sharing != Sharing::Nothing {
        bail!("--picker-sharing has no effect with one picker: expected --pickers 2 or more");
    }
    let [model] = models.as_slice() else { return pools::run(args, &models) };
    if let (Some(sweep), Some(condition)) = (args.sweep, &args.condition) {
        let has_objective = [args.slo_ttft, args.slo_itl, args.slo_e2e].iter().any(Option::is_some);
        if condition.needs_objective() && !has_objective {
            bail!(
                "--for counts responses within an objective here, and none is given: add --slo-ttft, --slo-itl or \
                 --slo-e2e, such as --slo-ttft 800ms"
            );
        }
        return run_sweep(args, model, sweep, condition);
    }
    if let Some(number) =
        args.replicas.iter().find(|number| args.replicas.iter().filter(|other| other == number).count() > 1)
    {
        bail!("--replicas {number} is given twice, and both columns would be equal: give each number once");
    }
    let reports = columns(args, model)
        .iter()
        .map(|(policy, replicas)| one(args, model, policy, *replicas, requests(args)?))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let differences = differences(&reports);
    let sentences = advice(&reports, &differences);
    if let Some(file) = &args.html {
        let title = format!("longboat simulate: {}", model.name);
        let section = Section { heading: "", reports: &reports, sentences: &sentences };
        fs::write(file, page::html(&title, &[section]))
            .with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    if args.output != OutputFormat::Text {
        let result = json!({"reports": reports, "differences": differences, "advice": sentences});
        return printer::data(&result, args.output);
    }
    printer::write_piece(&table(&reports));
    for sentence in sentences {
        printer::line(&sentence);
    }
    Ok(())
}

/// Returns the policy and, if flags give it, the number of replicas of each column of the result.
fn columns(args: &SimulateArgs, model: &ServiceModel) -> Vec<(Policy, Option<usize>)> {
    let numbers: Vec<Option<usize>> = if args.replicas.is_empty() {
        vec![None]
    } else {
        args.replicas.iter().map(|replicas| usize::try_from(*replicas).ok()).collect()
    };
    let column = |policy: &Policy, replicas: Option<usize>| {
        let mut policy = policy.clone();
        if let (Some(replicas), [_, _, ..]) = (replicas, numbers.as_slice()) {
            policy.name = format!("{}, {}", policy.name, counted(replicas, "replica"));
        }
        (policy, replicas)
    };
    model
        .policies
        .iter()
        .flat_map(|policy| numbers.iter().map(move |number| column(policy, *number)))
        .collect()
}

/// Simulates the traffic with one policy, and with other replicas than the service has if they are given.
fn one(
    args: &SimulateArgs,
    model: &ServiceModel,
    policy: &Policy,
    replicas: Option<usize>,
    requests: Requests<'_>,
) -> anyhow::Result<Report> {
    let mut pool = model.pool.clone();
    if let (Some(replicas), Some(first)) = (replicas, pool.first_mut()) {
        first.replicas = replicas;
    }
    let mut changes: Vec<_> = args.changes.clone();
    // `--at` may be given in any order.
    changes.sort_by_key(|(at, _)| *at);
    if args.sweep.is_some() && changes.iter().any(|(_, change)| matches!(change, PoolChange::Replicas(_))) {
        bail!("--sweep and --at …:replicas= both set the number of replicas: use one of them");
    }
    let settings = Settings {
        pool,
        changes,
        seed: args.seed,
        scrape: args.scrape_interval,
        event_delay: args.event_delay,
        slo: Slo { ttft: args.slo_ttft, itl: args.slo_itl, e2e: args.slo_e2e },
        explain_every: EXPLAIN_EVERY,
        start_time: args.start_time,
        autoscaler: model.autoscaler.clone(),
        pickers: PickerSettings { number: args.pickers, sharing: args.picker_sharing },
    };
    let progress = &mut |count: u64| {
        if count.is_multiple_of(PROGRESS_REQUESTS) {
            printer::note(&format!("{}: {count} requests", policy.name));
        }
    };
    let requests = requests.enumerate().map(|(index, request)| {
        let request = request?;
        model.check(&request).map_err(|message| TraceError::Request { number: index + 1, message })?;
        Ok(request)
    });
    let report =
        simulate(policy, &settings, Box::new(requests), progress).map_err(|error| of_trace(args, error))?;
    for (at, _) in settings.changes.iter().filter(|(at, _)| at.as_secs_f64() > report.seconds) {
        printer::note(&format!(
            "{}: the change of the pool at {} s comes after the end of the traffic, which is at {:.1} s, and has no effect",
            policy.name,
            at.as_secs_f64(),
            report.seconds
        ));
    }
    Ok(report)
}

/// Names the trace in an error about it.
fn of_trace(args: &SimulateArgs, error: RunError) -> anyhow::Error {
    match (&args.trace, error) {
        (Some(file), error @ (RunError::Trace(_) | RunError::NoRequests)) => {
            anyhow::Error::from(error).context(format!("trace `{}`", file.display()))
        }
        (_, error) => error.into(),
    }
}

/// Returns the traffic, with the names of models that `--map-model` gives.
fn requests(args: &SimulateArgs) -> anyhow::Result<Requests<'_>> {
    let requests = traffic(args)?;
    if args.model_names.is_empty() {
        return Ok(requests);
    }
    let of = |name: &str| args.model_names.iter().find(|(from, _)| from == name).map(|(_, to)| to.clone());
    let renamed = move |mut request: TraceRequest| {
        let name = request.asks_for();
        let is_named = !name.is_empty();
        if let Some(to) = of(name).or_else(|| of("*").filter(|_| is_named)) {
            *request.adapter.as_mut().unwrap_or(&mut request.model) = to;
        }
        request
    };
    Ok(Box::new(requests.map(move |request| request.map(&renamed))))
}

fn traffic(args: &SimulateArgs) -> anyhow::Result<Requests<'static>> {
    if let Some(kind) = args.generate {
        return Ok(generate::requests(Traffic {
            kind,
            rate: args.rate,
            requests: args.requests,
            prompt_tokens: args.prompt_tokens,
            output_tokens: args.output_tokens,
            seed: args.seed,
        }));
    }
    if let Some(file) = &args.workload {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let workload =
            Workload::parse(&text).map_err(|error| anyhow!("workload `{}`: {error}", file.display()))?;
        return Ok(workload.requests(args.seed));
    }
    let file = args.trace.as_ref().context(NO_TRAFFIC)?;
    let opened = File::open(file).with_context(|| format!("cannot read trace `{}`", file.display()))?;
    Ok(args.format.read(BufReader::new(opened)))
}

fn write_trace(args: &SimulateArgs, file: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot write `{}`", file.display());
    let requests = requests(args)?;
    let same = |trace: &PathBuf| {
        trace.canonicalize().ok().is_some_and(|trace| file.canonicalize().is_ok_and(|file| file == trace))
    };
    // Creating the file would empty the trace before it is read.
    if args.trace.as_ref().is_some_and(same) {
        bail!("--write-trace `{}`: the traffic is read from this file; write to another one", file.display());
    }
    let mut out = BufWriter::new(File::create(file).with_context(context)?);
    let mut count = 0;
    for request in requests {
        let request = request.map_err(|error| of_trace(args, error.into()))?;
        writeln!(out, "{}", request.to_line()).with_context(context)?;
        count += 1;
    }
    out.flush().with_context(context)?;
    if count == 0 {
        return Err(of_trace(args, RunError::NoRequests));
    }
    printer::note(&format!("{count} requests written to {}", file.display()));
    Ok(())
}

/// Reads the configurations. Each has the name of its file, or its path, if another file has the same name.
fn policies(files: &[PathBuf]) -> anyhow::Result<Vec<Policy>> {
    let short = |file: &Path| file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let mut policies: Vec<Policy> = Vec::new();
    for file in files {
        let config = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        // A picker takes an empty text for its defaults, and a person has taken the wrong file.
        let says_something =
            |line: &str| !matches!(line.trim(), "" | "---") && !line.trim_start().starts_with('#');
        if !config.lines().any(says_something) {
            bail!("--config `{}` is empty: expected an EndpointPickerConfig", file.display());
        }
        let is_alone = files.iter().filter(|other| short(other) == short(file)).count() == 1;
        let name = if is_alone { short(file) } else { file.display().to_string() };
        if policies.iter().any(|policy| policy.name == name) {
            bail!(
                "--config `{name}` is given twice, and both columns would be equal: give each configuration once; --replicas 4,8 \
                 compares numbers of replicas"
            );
        }
        policies.push(Policy { name, config, gates: Vec::new(), allow_experimental: true });
    }
    Ok(policies)
}

fn run_sweep(
    args: &SimulateArgs,
    model: &ServiceModel,
    sweep: Sweep,
    condition: &Condition,
) -> anyhow::Result<()> {
    let mut results = Vec::new();
    for policy in &model.policies {
        let found =
            sweep.find(condition, |replicas| one(args, model, policy, Some(replicas), requests(args)?))?;
        results.push((policy.name.as_str(), found));
    }
    if args.output != OutputFormat::Text {
        let object = |(policy, found): &(&str, SweepResult)| {
            let steps: Vec<_> = found
                .steps
                .iter()
                .map(|(replicas, value, holds)| json!({"replicas": replicas, "value": value, "holds": holds}))
                .collect();
            json!({
                "policy": policy, "steps": steps, "smallest": found.smallest, "limit": found.limit,
                "unstable": found.is_unstable
            })
        };
        let sweeps = results.iter().map(object).collect::<Vec<_>>();
        printer::data(&json!({"sweeps": sweeps}), args.output)?;
        return all_found(&results, sweep);
    }
    for (policy, found) in &results {
        for (replicas, value, holds) in &found.steps {
            let mark = if *holds { "enough".green().to_string() } else { "too few".red().to_string() };
            printer::line(&format!(
                "{policy}: {}: {} {mark}",
                counted(*replicas, "replica"),
                condition.text(*value)
            ));
        }
        let limit = found.limit.map(|limit| format!("; with fewer, {limit}")).unwrap_or_default();
        if let Some(replicas) = found.smallest {
            let verb = if replicas == 1 { "is" } else { "are" };
            printer::line(&format!("{policy}: {} {verb} enough{limit}", counted(replicas, "replica")));
            if found.is_unstable {
                printer::line(&format!(
                    "{policy}: but {} are not, so this depends on chance: leave a margin, or simulate more requests",
                    replicas + 1
                ));
            }
        } else {
            let limit = found.limit.unwrap_or_default();
            printer::line(&format!("{policy}: {} replicas are too few: {limit}", sweep.to));
        }
    }
    all_found(&results, sweep)
}

/// Fails if the condition holds for a policy with no number of replicas.
fn all_found(results: &[(&str, SweepResult)], sweep: Sweep) -> anyhow::Result<()> {
    match results.iter().find(|(_, found)| found.smallest.is_none()) {
        Some((policy, _)) => bail!("{policy}: the condition does not hold with up to {} replicas", sweep.to),
        None => Ok(()),
    }
}

fn table(reports: &[Report]) -> String {
    let row = |name: &str, values: Vec<String>| iter::once(name.to_owned()).chain(values).collect::<Vec<_>>();
    let mut rows = vec![row("", reports.iter().map(|report| report.policy.clone()).collect())];
    rows.extend(page::rows(reports).into_iter().map(|(name, values)| row(name, values)));
    printer::aligned(&rows, 1, "   ").into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::policies;

    #[test]
    fn configurations_of_one_name_are_told_apart_by_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let file = |folder_name: &str, name: &str| {
            let folder = folder.path().join(folder_name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(name), "x").unwrap();
            folder.join(name)
        };
        let (one, same, other) = (file("a", "x.yaml"), file("b", "x.yaml"), file("a", "y.yaml"));
        let names: Vec<String> = policies(&[one.clone(), same.clone(), other.clone()])
            .unwrap()
            .into_iter()
            .map(|policy| policy.name)
            .collect();
        assert_eq!(names, [one.display().to_string(), same.display().to_string(), "y".to_owned()]);
        let error = policies(&[one.clone(), one]).unwrap_err().to_string();
        assert!(error.contains("is given twice"), "{error}");
        std::fs::write(&same, "---\n# nothing\n\n").unwrap();
        let error = policies(&[same]).unwrap_err().to_string();
        assert!(error.ends_with("is empty: expected an EndpointPickerConfig"), "{error}");
    }
}
