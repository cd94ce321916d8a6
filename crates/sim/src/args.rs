//! The command line: the flags of vLLM's `serve` and of the reference simulator together. Flags that change the simulator's
//! behaviour are known by name. Every other flag is accepted and reported as ignored.

use std::{ops::RangeInclusive, time::Duration};

use longboat_api::vllm;
use longboat_engine_model::{Parameters, Timing};
use longboat_serving::{Adapter, ArgsError, CommandLine, Flag, Refusal, ServerArgs, kv_events};

use crate::{
    dialect::{self, Dialect},
    duration,
    engine::storage::{self, Storage},
    faults::{self, Faults},
    handover,
    media::MediaArgs,
};

/// The most numbers of a vector.
const MAX_EMBEDDING_WIDTH: usize = 16_384;

/// How answers come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Filler sentences.
    Random,
    /// The prompt, repeated.
    Echo,
}

/// The engine whose command line and metrics the simulator has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SimulatedEngine {
    /// `None` means vLLM.
    pub(crate) dialect: Option<&'static Dialect>,
    /// Whether it was told to have metrics.
    pub(crate) has_metrics: bool,
}

/// All settings of the simulator.
#[derive(Debug, Clone)]
pub struct Args {
    pub(crate) engine: SimulatedEngine,
    pub(crate) server: ServerArgs,
    pub(crate) adapters: Vec<Adapter>,
    /// Whether requests may load and unload adapters.
    pub(crate) allows_lora_updates: bool,
    pub(crate) mode: Mode,
    pub(crate) seed: Option<u64>,
    /// The numbers of the engine, with which its load can be computed without running it.
    pub(crate) parameters: Parameters,
    /// This engine's part of requests that two engines divide by a meeting place (SGLang).
    pub(crate) disaggregation: Option<handover::Mode>,
    /// The folder in which engines share computed blocks.
    pub(crate) storage: Option<Storage>,
    /// The part of a prompt that must be cached, if the request does not set one.
    pub(crate) cache_hit_threshold: Option<f64>,
    /// The settings for images, sounds and videos.
    pub(crate) media: MediaArgs,
    pub(crate) faults: Faults,
    /// Numbers of a vector.
    pub(crate) vector_width: usize,
}

// === impl Args ===

impl Args {
    /// Parses the arguments after `vllm serve`. The default latencies are those of a small model on one accelerator, so that
    /// a first try looks realistic.
    pub fn vllm<S: AsRef<str>>(arguments: &[S]) -> Result<Self, ArgsError> {
        Self::realistic().parse(arguments)
    }

    /// The defaults of an engine.
    fn realistic() -> Self {
        let mut defaults = Self::defaults();
        defaults.parameters = Parameters {
            max_model_len: 32_768,
            max_num_seqs: 256,
            cache_blocks: 8192,
            timing: Timing::realistic(),
            ..defaults.parameters
        };
        defaults.media.time = Duration::from_millis(20);
        defaults
    }

    /// Parses the arguments of `longboat sim`, with the reference simulator's defaults: no latency at all. If they name another
    /// engine than vLLM, the others are those of its server, and the latencies those of an engine.
    pub fn simulator<S: AsRef<str>>(arguments: &[S]) -> Result<Self, ArgsError> {
        let flags = CommandLine::parse(arguments).flags;
        let engine =
            flags.iter().rfind(|flag| flag.name == "simulated-engine").map(Flag::text).transpose()?;
        let Some(dialect) = engine.and_then(Dialect::of) else {
            return Self::defaults().parse(arguments);
        };
        let engine = SimulatedEngine { dialect: Some(dialect), has_metrics: false };
        Self { engine, ..Self::realistic() }.parse(arguments)
    }

    /// The port to listen on. With 0, the system chooses the port.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// The flags and words after the model that do not change [`parameters`](Self::parameters).
    pub fn without_load<S: AsRef<str>>(arguments: &[S]) -> Vec<String> {
        let CommandLine { words, flags } = CommandLine::parse(arguments);
        let mut parameters = Self::defaults().parameters;
        let others = flags.into_iter().filter(|flag| set_load(&mut parameters, flag) == Ok(false));
        words.into_iter().skip(1).chain(others.map(|flag| format!("--{}", flag.name))).collect()
    }

    /// The flags without effect that vLLM itself does not know.
    pub(crate) fn refused_by_vllm(&self) -> Vec<&str> {
        let is_vllm = self.engine.dialect.is_none();
        let flags = self.server.ignored.iter().filter(|flag| is_vllm && flag.starts_with("--"));
        flags.map(String::as_str).filter(|flag| !vllm::flags::is_known(flag)).collect()
    }

    /// The numbers of the engine, with which its load can be computed without running it.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Reads the environment variables that a model server reads.
    #[must_use]
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        if self.engine.dialect.is_none() {
            self.server.read_key(&variable);
        }
        Self { allows_lora_updates: longboat_serving::allows_lora_updates(variable), ..self }
    }

    fn defaults() -> Self {
        Self {
            engine: SimulatedEngine::default(),
            server: ServerArgs::default(),
            adapters: Vec::new(),
            allows_lora_updates: false,
            mode: Mode::Random,
            seed: None,
            parameters: Parameters {
                max_model_len: 1024,
                max_num_seqs: 5,
                max_waiting: 1000,
                block_size: 16,
                cache_blocks: 1024,
                timing: Timing::default(),
            },
            disaggregation: None,
            storage: None,
            cache_hit_threshold: None,
            media: MediaArgs::default(),
            faults: Faults::default(),
            vector_width: 384,
        }
    }

    fn parse<S: AsRef<str>>(mut self, arguments: &[S]) -> Result<Self, ArgsError> {
        let CommandLine { mut words, mut flags } = CommandLine::parse(arguments);
        if let Some(dialect) = self.engine.dialect {
            let turns_on = |flag: &Flag| Some(flag.name.as_str()) == dialect.metrics_flag;
            // Asked for and removed before names change: it must not be reported as a flag without effect.
            self.engine.has_metrics = dialect.metrics_flag.is_none() || flags.iter().any(turns_on);
            flags.retain(|flag| !turns_on(flag));
            for flag in &mut flags {
                flag.name = dialect.flag(&flag.name).to_owned();
            }
            words = dialect.arguments(words);
        }
        (self.server, flags) = ServerArgs::parse(CommandLine { words, flags })?;
        let (mut has_cache, mut events) = (false, None);
        for flag in &flags {
            match flag.name.as_str() {
                _ if set_load(&mut self.parameters, flag)? => {}
                "simulated-engine" => match flag.text()? {
                    // `simulator` has chosen by it already.
                    "vllm" => {}
                    other if self.engine.dialect.is_some_and(|dialect| dialect.engine.label == other) => {}
                    other => {
                        let expected = format!("unknown engine `{other}`; expected {}", dialect::NAMES);
                        return Err(flag.invalid(expected));
                    }
                },
                "lora-modules" => self.adapters = flag.adapters()?,
                "mode" => {
                    self.mode = match flag.text()? {
                        "random" => Mode::Random,
                        "echo" => Mode::Echo,
                        other => {
                            return Err(
                                flag.invalid(format!("unknown mode `{other}`; expected `random` or `echo`"))
                            );
                        }
                    }
                }
                "seed" => self.seed = Some(flag.value()?),
                "enable-kvcache" => has_cache = flag.values().next() != Some("false"),
                "zmq-endpoint" => {
                    // The topic of llm-d's simulator.
                    let topic = format!("kv@{}@{}", self.server.address, self.server.names[0]);
                    let settings = kv_events::Settings::new(flag.text()?, topic);
                    events = Some(settings.map_err(|error| flag.invalid(error))?);
                }
                "kv-transfer-loss-rate" => self.faults.lost = flag.value()?,
                "kv-transfer-config" => self.storage = storage::configured(flag)?,
                "modalities" => self.media.set_modalities(flag)?,
                "limit-mm-per-prompt" => self.media.set_limits(flag)?,
                "tokens-per-item" => self.media.tokens = flag.positive()?,
                "encode-time-per-item" => self.media.time = duration(flag)?,
                "ec-transfer-config" => self.media.set_transfer(flag)?,
                "ec-transfer-loss-rate" => self.faults.lost_embeddings = flag.value()?,
                "default-embedding-dimensions" => self.vector_width = width(flag)?,
                "global-cache-hit-threshold" => {
                    self.cache_hit_threshold = Some(within(flag, 0.0..=1.0, "0 to 1")?);
                }
                "disaggregation-mode" => self.disaggregation = handover::mode(flag)?,
                "failure-injection-rate" => self.faults.refused = flag.value()?,
                "failure-types" => self.faults.refusals = refusals(flag)?,
                _ => self.server.ignored.push(format!("--{}", flag.name)),
            }
        }
        match events {
            Some(_) if has_cache => self.server.kv_events = events,
            Some(_) => self.server.ignored.push("--zmq-endpoint".to_owned()),
            None => {}
        }
        Ok(self)
    }
}

/// Reads a flag that changes the load of the engine. All others change what the server says or where it listens. Returns whether it is
/// such a flag.
fn set_load(parameters: &mut Parameters, flag: &Flag) -> Result<bool, ArgsError> {
    let timing = &mut parameters.timing;
    match flag.name.as_str() {
        "max-model-len" => parameters.max_model_len = flag.positive()?,
        "max-num-seqs" => parameters.max_num_seqs = flag.positive()?,
        "max-waiting-queue-length" => parameters.max_waiting = flag.value()?,
        "block-size" => parameters.block_size = flag.positive()?,
        "kv-cache-size" | "num-gpu-blocks-override" => parameters.cache_blocks = flag.positive()?,
        "time-to-first-token" | "prefill-overhead" => timing.first_token = duration(flag)?,
        "prefill-time-per-token" => timing.prefill_per_token = duration(flag)?,
        "inter-token-latency" => timing.between_tokens = duration(flag)?,
        "kv-cache-transfer-latency" => timing.transfer = duration(flag)?,
        "kv-cache-transfer-time-per-token" => timing.transfer_per_token = duration(flag)?,
        "time-factor-under-load" => {
            timing.factor_under_load = within(flag, 1.0..=1000.0, "1.0 to 1000")?;
        }
        "max-num-batched-tokens" => timing.max_batched_tokens = batched_tokens(flag)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads a number between bounds, of which an error has the words.
fn within(flag: &Flag, bounds: RangeInclusive<f64>, words: &str) -> Result<f64, ArgsError> {
    let value: f64 = flag.value()?;
    if bounds.contains(&value) {
        Ok(value)
    } else {
        Err(flag.invalid(format!("`{value}`: expected a number from {words}")))
    }
}

/// Reads a number as vLLM does: `8k` is 8,000 and `8K` is 8,192. `None` stands for the engine's own choice.
fn batched_tokens(flag: &Flag) -> Result<Option<usize>, ArgsError> {
    let text = flag.text()?;
    if matches!(text, "auto" | "-1") {
        return Ok(None);
    }
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) if text.ends_with('k') => (number, 1000),
        Some(number) => (number, 1024),
        None => (text, 1),
    };
    let tokens = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    match tokens.filter(|tokens| *tokens > 0) {
        Some(tokens) => Ok(Some(tokens)),
        None => Err(flag.invalid(format!("`{text}`: expected a number above 0, such as 8192 or 8k"))),
    }
}

fn width(flag: &Flag) -> Result<usize, ArgsError> {
    let value = flag.positive()?;
    if value <= MAX_EMBEDDING_WIDTH {
        Ok(value)
    } else {
        Err(flag.invalid(format!("`{value}`: expected at most {MAX_EMBEDDING_WIDTH}")))
    }
}

fn refusals(flag: &Flag) -> Result<Vec<Refusal>, ArgsError> {
    flag.names().iter().map(|name| faults::refusal(name).map_err(|reason| flag.invalid(reason))).collect()
}

fn duration(flag: &Flag) -> Result<Duration, ArgsError> {
    duration::parse(flag.text()?).map_err(|reason| flag.invalid(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_do_not_change_the_load_are_told_apart() {
        let all = ["m", "--max-num-seqs", "4", "--port=3", "--kv-cache-size=64", "--no-such", "x"];
        assert_eq!(Args::without_load(&all), ["--port", "--no-such"]);
        assert_eq!(Args::without_load(&["m", "word"]), ["word"]);
    }

    #[test]
    fn the_presets_command_line_is_understood() {
        let args = Args::vllm(&[
            "/mnt/models",
            "--served-model-name",
            "Qwen/Qwen2.5-7B",
            "publishers/ns/models/q",
            "--port",
            "8001",
            "--disable-access-log-for-endpoints",
            "/health,/metrics",
            "",
            "--enable-ssl-refresh",
            "--ssl-certfile=/c",
            "--ssl_keyfile",
            "/k",
        ])
        .unwrap();
        assert_eq!(args.server.names, ["Qwen/Qwen2.5-7B", "publishers/ns/models/q"]);
        assert_eq!((args.server.model.as_str(), args.server.address.port()), ("/mnt/models", 8001));
        assert_eq!(args.server.listen.certificate, Some(("/c".into(), "/k".into())));
        assert_eq!(args.server.ignored, ["--disable-access-log-for-endpoints", "--enable-ssl-refresh"]);
        assert_eq!(args.refused_by_vllm(), [""; 0]);
        let misspelt = Args::vllm(&["m", "--max-modle-len=8", "--enable-ssl-refresh"]).unwrap();
        assert_eq!(misspelt.refused_by_vllm(), ["--max-modle-len"]);
    }

    #[test]
    fn the_events_of_llm_ds_simulator_are_understood() {
        let all = ["m", "--enable-kvcache", "--zmq-endpoint", "tcp://picker:5557", "--port=8001"];
        let expected = kv_events::Settings::new("tcp://picker:5557", "kv@127.0.0.1:8001@m".to_owned());
        let args = Args::simulator(&all).unwrap();
        assert_eq!(args.server.kv_events, Some(expected.unwrap()));
        let without = Args::simulator(&["m", "--zmq-endpoint=tcp://picker:5557"]).unwrap();
        assert_eq!(
            (without.server.kv_events, without.server.ignored),
            (None, vec!["--zmq-endpoint".to_owned()])
        );
    }

    #[test]
    fn the_numbers_of_the_engine_are_those_of_the_command_line() {
        let args = ["m", "--max-num-seqs=8", "--num-gpu-blocks-override=99", "--max-num-batched-tokens=2K"];
        let timing = Timing { max_batched_tokens: Some(2048), ..Timing::realistic() };
        let parameters = Parameters {
            max_num_seqs: 8,
            max_waiting: 1000,
            block_size: 16,
            cache_blocks: 99,
            max_model_len: 32_768,
            timing,
        };
        assert_eq!(Args::vllm(&args).unwrap().parameters(), parameters);
    }

    #[test]
    fn the_command_line_of_sglang_is_understood() {
        let args = Args::simulator(&[
            "--simulated-engine=sglang",
            "--model-path",
            "/mnt/models",
            "--served-model-name",
            "org/model",
            "--port",
            "8000",
            "--host",
            "0.0.0.0",
            "--enable-metrics",
            "--tp",
            "2",
            "--context-length",
            "4096",
            "--page-size",
            "64",
        ])
        .unwrap();
        let label = args.engine.dialect.map(|dialect| dialect.engine.label);
        assert_eq!((label, args.engine.has_metrics), (Some("sglang"), true));
        assert_eq!(
            (args.server.model.as_str(), args.server.names),
            ("/mnt/models", vec!["org/model".to_owned()])
        );
        assert_eq!(
            (args.parameters.max_model_len, args.parameters.block_size, args.parameters.max_num_seqs),
            (4096, 64, 256)
        );
        assert_eq!(args.server.ignored, ["--tp"]);
        assert!(Args::simulator(&["--simulated-engine=other", "m"]).is_err());
    }

    #[test]
    fn the_command_lines_of_other_servers_are_understood() {
        let arguments = [
            "--simulated-engine=trtllm-serve",
            "serve",
            "/mnt/models",
            "--served_model_name",
            "org/m",
            "--max_seq_len",
            "4096",
            "--tp_size",
            "2",
        ];
        let args = Args::simulator(&arguments).unwrap();
        assert_eq!((args.server.model.as_str(), args.parameters.max_model_len), ("/mnt/models", 4096));
        assert_eq!((args.server.names, args.engine.has_metrics), (vec!["org/m".to_owned()], true));
        let arguments = [
            "--simulated-engine=llamacpp",
            "--model",
            "/m.gguf",
            "--alias",
            "m",
            "--metrics",
            "--parallel",
            "4",
        ];
        let args = Args::simulator(&arguments).unwrap();
        assert_eq!((args.server.model.as_str(), args.parameters.max_num_seqs), ("/m.gguf", 4));
        assert_eq!((args.server.names, args.engine.has_metrics), (vec!["m".to_owned()], true));
        let adapter = r#"{"lora_name":"sql","lora_path":"/mnt/lora/sql"}"#;
        let start =
            ["--simulated-engine=sglang", "--model-path", "m", "--lora-paths", adapter, "law=/mnt/law"];
        let adapters = Args::simulator(&start).unwrap().adapters;
        assert_eq!(adapters.iter().map(|adapter| &adapter.name).collect::<Vec<_>>(), ["sql", "law"]);
    }

    #[test]
    fn wrong_values_name_their_flag() {
        assert_eq!(Args::simulator(&["--port", "x", "m"]).unwrap_err().to_string(), {
            "flag `--port`: `x`: invalid digit found in string"
        });
        assert_eq!(Args::simulator(&["m", "--port"]).unwrap_err(), ArgsError::Missing("--port".into()));
        assert_eq!(Args::simulator::<&str>(&[]).unwrap_err(), ArgsError::NoModel);
        assert!(Args::simulator(&["m", "--mode", "loud"]).is_err());
        assert!(Args::simulator(&["m", "--block-size", "0"]).is_err());
        assert!(Args::simulator(&["m", "--max-num-batched-tokens", "0k"]).is_err());
        let missing = ArgsError::Missing("--ssl-certfile".into());
        assert_eq!(Args::simulator(&["m", "--ssl-keyfile", "k"]).unwrap_err(), missing);
    }
}
