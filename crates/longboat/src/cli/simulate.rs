//! The command line of `simulate`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum, ValueHint, value_parser};
use longboat_simulate::{
    PoolChange, Sharing,
    generate::{Kind, MAX_MEAN_TOKENS},
    import::TraceFormat,
    sweep::{Condition, Sweep},
};

use super::{
    manifests::{EnvironmentArgs, ManifestArgs},
    output::OutputFormat,
};

/// Flags that have no meaning if nothing is simulated.
const ONLY_SIMULATION: [&str; 20] = [
    "manifests",
    "filenames",
    "configs",
    "replicas",
    "engine_args",
    "start_time",
    "autoscale",
    "pickers",
    "picker_sharing",
    "accelerators",
    "scrape_interval",
    "event_delay",
    "changes",
    "slo_ttft",
    "slo_itl",
    "slo_e2e",
    "sweep",
    "html",
    "output",
    "recursive",
];

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SimulateCommand>,
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) environment: EnvironmentArgs,
    /// Trace: a file with one request per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "generate")]
    pub(crate) trace: Option<PathBuf>,
    /// Format of the trace
    #[arg(long, value_enum, default_value_t = TraceFormat::Jsonl, conflicts_with_all = ["generate", "workload"])]
    pub(crate) format: TraceFormat,
    /// Name in the trace, and the model or adapter of the service that it stands for; `*=NAME` for all others; repeatable
    #[arg(long = "map-model", value_name = "NAME=NAME", value_parser = model_names, conflicts_with_all = ["generate"])]
    pub(crate) model_names: Vec<(String, String)>,
    /// Workload of `inference-perf` or `llm-d-benchmark`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["trace", "generate"])]
    pub(crate) workload: Option<PathBuf>,
    /// Make up traffic of this kind
    #[arg(long, value_enum)]
    pub(crate) generate: Option<Kind>,
    /// Requests a second of made-up traffic, on average
    #[arg(long, default_value_t = 10.0, value_parser = rate, conflicts_with_all = ["trace", "workload"])]
    pub(crate) rate: f64,
    /// Number of requests of made-up traffic
    #[arg(long, default_value_t = 5000, value_parser = value_parser!(u64).range(1..), conflicts_with_all = ["trace", "workload"])]
    pub(crate) requests: u64,
    /// Tokens that a request of made-up traffic adds to its prompt, on average
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_MEAN_TOKENS), conflicts_with_all = ["trace", "workload"])]
    pub(crate) prompt_tokens: Option<u64>,
    /// Tokens of an answer of made-up traffic, on average
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MAX_MEAN_TOKENS), conflicts_with_all = ["trace", "workload"])]
    pub(crate) output_tokens: Option<u64>,
    /// Seed of made-up traffic and of the picker's random choices
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write the traffic as a trace to this file, and simulate nothing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ONLY_SIMULATION)]
    pub(crate) write_trace: Option<PathBuf>,
    /// EndpointPickerConfig to simulate instead of the service's own; repeatable, for one column each
    #[arg(long = "config", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) configs: Vec<PathBuf>,
    /// Numbers of replicas instead of the service's: `4`, or `4,8` for one column each
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=65536))]
    pub(crate) replicas: Vec<u32>,
    /// Flags of the engine: those of `longboat sim`, as `simulate calibrate` prints them
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    pub(crate) engine_args: Option<String>,
    /// Time from the creation of an endpoint to its first request, for endpoints that come later
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = longboat_quantity::duration::parse)]
    pub(crate) start_time: Duration,
    /// Scale by the sum of a metric over the endpoints, divided by a target: `vllm:num_requests_running=10`
    #[arg(long, value_name = "METRIC=TARGET", value_parser = metric, conflicts_with_all = ["replicas", "sweep"])]
    pub(crate) autoscale: Option<(String, f64)>,
    /// Autoscaler of `--autoscale`
    #[arg(long, value_enum, default_value_t = AutoscalerKind::Hpa, requires = "autoscale", conflicts_with_all = ["replicas", "sweep"])]
    pub(crate) autoscaler: AutoscalerKind,
    /// Fewest endpoints of `--autoscale`; 0 needs `--autoscaler keda`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(i32).range(0..=65536), requires = "autoscale", conflicts_with_all = ["replicas", "sweep"])]
    pub(crate) min_replicas: i32,
    /// Most endpoints of `--autoscale`
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(i32).range(1..=65536), requires = "autoscale", conflicts_with_all = ["replicas", "sweep"])]
    pub(crate) max_replicas: i32,
    /// Number of pickers, over which requests are spread
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pickers: usize,
    /// When a picker knows what others have decided: after a time, or `never`; with 0s, pickers have one state
    #[arg(long, value_name = "DURATION|never", default_value = "never", value_parser = sharing, requires = "pickers")]
    pub(crate) picker_sharing: Sharing,
    /// Accelerators of a replica, for GPU seconds
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = accelerators)]
    pub(crate) accelerators: f64,
    /// Age of the picker's metrics: its interval between two scrapes
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = longboat_quantity::duration::parse)]
    pub(crate) scrape_interval: Duration,
    /// Delay of KV cache events
    #[arg(long, value_name = "DURATION", default_value = "5ms", value_parser = longboat_quantity::duration::parse)]
    pub(crate) event_delay: Duration,
    /// Change of the pool at a time: `60s:replicas=4`, `90s:fail=0` (endpoints have numbers from 0); repeatable
    #[arg(long = "at", value_name = "TIME:CHANGE", value_parser = change)]
    pub(crate) changes: Vec<(Duration, PoolChange)>,
    /// Time to the first token of a good request
    #[arg(long, value_name = "DURATION", value_parser = longboat_quantity::duration::parse)]
    pub(crate) slo_ttft: Option<Duration>,
    /// Mean time between two tokens of a good request
    #[arg(long, value_name = "DURATION", value_parser = longboat_quantity::duration::parse)]
    pub(crate) slo_itl: Option<Duration>,
    /// Time to the last token of a good request
    #[arg(long, value_name = "DURATION", value_parser = longboat_quantity::duration::parse)]
    pub(crate) slo_e2e: Option<Duration>,
    /// Find the smallest number of replicas, such as `replicas=2..16`
    #[arg(long, value_name = "RANGE", requires = "condition", conflicts_with = "replicas")]
    pub(crate) sweep: Option<Sweep>,
    /// Condition for `--sweep`, such as `ttft.p99<800ms`, `goodput>99%`
    #[arg(id = "condition", long = "for", value_name = "CONDITION", requires = "sweep")]
    pub(crate) condition: Option<Condition>,
    /// Write a web page with pictures
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "sweep")]
    pub(crate) html: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
}

/// What `simulate` does besides simulating.
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Measure a server with a few requests, and print the flags of an engine with its times
    Calibrate(CalibrateArgs),
}

/// Arguments of `simulate calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Address of an OpenAI server, with or without `/v1`
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    /// Length of the longer prompts, about. The model is a line through prompts of 32 tokens and these, so take the length of the
    /// traffic
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(64..=65536))]
    pub(crate) prompt_tokens: u32,
    /// Requests at the same time, which measure the slowdown under load
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) parallel: usize,
    /// Batch limit of the engine. The slowdown is extrapolated to it
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=65536))]
    pub(crate) max_num_seqs: Option<u32>,
}

/// What scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoscalerKind {
    /// A `HorizontalPodAutoscaler`, every 15 seconds.
    Hpa,
    /// KEDA, every 30 seconds, down to zero.
    Keda,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (1e-6..=1e6).contains(rate));
    rate.ok_or_else(|| format!("`{text}`: expected a number above 0, at most 1000000"))
}

fn accelerators(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| format!("`{text}`: expected a number from 0 to 1000000"))
}

fn metric(text: &str) -> Result<(String, f64), String> {
    let wrong =
        || format!("`{text}`: expected a metric and a number above 0, such as vllm:num_requests_running=10");
    let (name, target) = text.split_once('=').ok_or_else(wrong)?;
    let target = target.trim().parse::<f64>().ok().filter(|target| *target > 0.0 && target.is_finite());
    Ok((name.trim().to_owned(), target.ok_or_else(wrong)?))
}

fn model_names(text: &str) -> Result<(String, String), String> {
    let names = text.split_once('=').filter(|(from, to)| !from.is_empty() && !to.is_empty());
    let (from, to) =
        names.ok_or_else(|| format!("`{text}`: expected two names, such as gpt-4=qwen or *=qwen"))?;
    Ok((from.to_owned(), to.to_owned()))
}

fn sharing(text: &str) -> Result<Sharing, String> {
    if text == "never" {
        Ok(Sharing::Nothing)
    } else {
        longboat_quantity::duration::parse(text).map(Sharing::After)
    }
}

fn change(text: &str) -> Result<(Duration, PoolChange), String> {
    let wrong = || format!("`{text}`: expected a time and a change, such as 60s:replicas=4 or 90s:fail=0");
    let (at, change) = text.split_once(':').ok_or_else(wrong)?;
    let (name, number) = change.split_once('=').ok_or_else(wrong)?;
    let number = number.parse().map_err(|_| wrong())?;
    let change = match name {
        "replicas" => PoolChange::Replicas(number),
        "fail" => PoolChange::Fail(number),
        _ => return Err(wrong()),
    };
    Ok((longboat_quantity::duration::parse(at)?, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<SimulateArgs, String> {
        #[derive(Debug, clap::Parser)]
        struct Cli {
            #[command(flatten)]
            simulate: SimulateArgs,
        }
        let all = std::iter::once("simulate").chain(arguments.iter().copied());
        <Cli as clap::Parser>::try_parse_from(all).map(|cli| cli.simulate).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_that_would_have_no_effect_and_numbers_beyond_their_limits_are_refused() {
        for (arguments, expected) in [
            (&["--generate", "poisson", "--prompt-tokens", "999999999"][..], "62500"),
            (&["--generate", "poisson", "--output-tokens", "0"], "62500"),
            (&["--generate", "poisson", "--requests", "0"], "--requests"),
            (&["--trace", "t", "--rate", "5"], "--trace"),
            (&["--generate", "poisson", "--format", "azure"], "--generate"),
            (&["--generate", "poisson", "--write-trace", "t", "--replicas", "5"], "--write-trace"),
            (&["--generate", "poisson", "--write-trace", "t", "-o", "json"], "--write-trace"),
            (&["service.yaml", "--generate", "poisson", "--write-trace", "t"], "--write-trace"),
            (
                &["--generate", "poisson", "--sweep", "replicas=1..2", "--for", "skew<1", "--html", "p"],
                "--html",
            ),
            (&["--generate", "poisson", "--autoscale", "x=0"], "above 0"),
            (&["--generate", "poisson", "--accelerators", "nan"], "`nan`: expected a number"),
            (&["--generate", "poisson", "--accelerators=-1"], "`-1`: expected a number"),
            (&["--generate", "poisson", "--min-replicas", "2"], "--autoscale"),
            (&["--generate", "poisson", "--picker-sharing", "50ms"], "--pickers"),
            (&["--generate", "poisson", "--map-model", "a=b"], "--generate"),
            (&["--trace", "t", "--map-model", "a"], "`a`: expected two names"),
            (&["--generate", "poisson", "--replicas", "4,0"], "0 is not in 1..=65536"),
            (&["--generate", "poisson", "--workload", "w"], "--workload"),
        ] {
            let error = parsed(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
        let args =
            parsed(&["--generate", "poisson", "--write-trace", "t", "--rate", "3", "--seed", "4"]).unwrap();
        assert_eq!((args.seed, args.pickers, args.picker_sharing), (4, 1, Sharing::Nothing));
        let shared = ["--generate", "poisson", "--pickers", "2", "--picker-sharing", "50ms"];
        let soon = parsed(&shared).unwrap().picker_sharing;
        assert_eq!(soon, Sharing::After(Duration::from_millis(50)));
    }

    #[test]
    fn changes_of_the_pool_are_understood() {
        assert_eq!(change("60s:replicas=4"), Ok((Duration::from_mins(1), PoolChange::Replicas(4))));
        assert_eq!(change("1m:fail=0"), Ok((Duration::from_mins(1), PoolChange::Fail(0))));
        for text in ["60s", "60s:replicas", "60s:stop=1", "x:fail=1", "1s:fail=-1"] {
            assert!(change(text).is_err(), "{text}");
        }
    }
}
