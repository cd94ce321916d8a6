//! The command line of `vllm serve`, as far as a CPU engine supports it.

use std::path::PathBuf;

use longboat_serving::{Adapter, ArgsError, CommandLine, Flag, ServerArgs};

use crate::transfer::{KvTransferConfig, Settings};

/// The text of `longboat engine --help` after the syntax.
pub const HELP: &str = "\
MODEL is a GGUF file, a folder with a GGUF file, or a folder with config.json, tokenizer.json and *.safetensors.
The Llama, Qwen2 and Qwen3 families are supported.

Flags that have an effect:
  --host, --port                   address to listen on (127.0.0.1:8000)
  --model, --served-model-name     model, and names of the served model
  --max-model-len                  maximum number of tokens of a prompt and its answer; the model's limit if not given
  --max-num-seqs                   maximum number of concurrent answers (64)
  --max-num-batched-tokens         maximum number of tokens in a forward pass (256)
  --max-waiting-queue-length       maximum number of waiting answers; further requests are refused (1000)
  --block-size                     number of tokens in a block of the KV cache (16)
  --kv-cache-memory-bytes          size of the KV cache in bytes (512 MiB)
  --no-enable-prefix-caching       compute every prompt again
  --enable-auto-tool-choice, --tool-call-parser hermes
                                   parse tool calls from answers
  --chat-template                  file with a chat template, which replaces the template of the model
  --enable-lora, --lora-modules    LoRA adapters, as NAME=PATH or as JSON
  --max-loras, --max-lora-rank     maximum number of adapters in a batch (1), and their maximum rank (16)
  --max-cpu-loras                  maximum number of unused adapters in memory; all if not given
  --runner                         generate (text) or pooling (embeddings); the purpose of the model if not given
  --convert embed, --task embed    same as --runner pooling
  --threads                        number of compute threads; half of the cores if not given
  --weights-as-shipped             keep slow weight formats instead of converting them to Q8_0
  --kv-events-config               publish stored and removed blocks of the prefix cache over ZeroMQ
  --kv-transfer-config             NixlConnector: compute prompts for other engines, or let other engines compute them
  --shutdown-timeout               time limit in seconds for running answers at shutdown (5)
  --api-key                        keys of which requests to /v1 need one; the variable VLLM_API_KEY if not given
  --ssl-certfile, --ssl-keyfile    certificate and key for HTTPS

--speculative-config is refused. Other flags of vLLM have no
effect, and the log names them.

Example:
  longboat engine ./model.gguf --served-model-name small --port 8000";

/// The default size of the KV cache in bytes.
pub(crate) const DEFAULT_CACHE_BYTES: usize = 512 << 20;

/// The most waiting answers: the queue has a place for each from the start.
pub(crate) const MAX_QUEUED_REQUESTS: usize = 1 << 16;
/// The most tokens in a block of the KV cache.
const MAX_BLOCK_TOKENS: usize = 1 << 12;

/// All settings of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    pub(crate) server: ServerArgs,
    pub(crate) max_model_len: Option<usize>,
    pub(crate) max_num_seqs: usize,
    pub(crate) max_batched_tokens: usize,
    pub(crate) max_waiting: usize,
    pub(crate) block_size: usize,
    pub(crate) cache_bytes: usize,
    pub(crate) caches_prefixes: bool,
    /// Whether weights keep the format of their file even if another format is multiplied faster.
    pub(crate) as_shipped: bool,
    /// How KV caches are transferred. `None` without `--kv-transfer-config`.
    pub(crate) kv_transfer: Option<Settings>,
    pub(crate) lora: LoraArgs,
    /// Whether tool calls are parsed from answers, in the form of Hermes and Qwen models.
    pub(crate) reads_calls: bool,
    /// A file with a chat template that replaces the model's own.
    pub(crate) template: Option<PathBuf>,
    /// This program, which renders chat templates in a process of its own. They are rendered in this process if it is not
    /// given.
    pub(crate) program: Option<PathBuf>,
    /// Threads that compute.
    threads: usize,
}

/// Which LoRA adapters there are, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoraArgs {
    pub(crate) enabled: bool,
    pub(crate) modules: Vec<Adapter>,
    /// The most adapters in one batch.
    pub(crate) max_adapters: usize,
    pub(crate) max_rank: usize,
    /// The most adapters that stay in memory while no request uses them. `None` means all of them.
    pub(crate) max_in_memory: Option<usize>,
    /// Whether requests may load and unload adapters.
    pub(crate) allows_updates: bool,
}

// === impl Args ===

impl Args {
    /// Parses the arguments after `vllm serve`.
    pub fn parse<S: AsRef<str>>(arguments: &[S]) -> Result<Self, ArgsError> {
        Self::parse_with(arguments, &|_| None)
    }

    /// Like [`Self::parse`], with the environment variables that belong to flags.
    pub fn parse_with<S: AsRef<str>>(
        arguments: &[S],
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ArgsError> {
        let (mut server, flags) = ServerArgs::parse(CommandLine::parse(arguments))?;
        server.read_key(variable);
        let mut args = Self::with_defaults(server);
        let mut parser = None;
        let mut kv_transfer: Option<KvTransferConfig> = None;
        let (mut max_num_seqs, mut max_batched_tokens) = (None, None);
        for flag in &flags {
            if flag.name == "lora-modules" && !flags.iter().any(|flag| flag.name == "enable-lora") {
                return Err(flag.invalid("LoRA is not enabled. Use --enable-lora to enable LoRA.".into()));
            }
            match flag.name.as_str() {
                "max-model-len" => args.max_model_len = Some(flag.positive()?),
                "max-num-seqs" => max_num_seqs = Some(flag.positive()?),
                "max-num-batched-tokens" => max_batched_tokens = Some(flag.positive()?),
                "max-waiting-queue-length" => {
                    args.max_waiting = at_most(flag, flag.value()?, MAX_QUEUED_REQUESTS)?;
                }
                "block-size" => args.block_size = at_most(flag, flag.positive()?, MAX_BLOCK_TOKENS)?,
                "kv-cache-memory-bytes" => args.cache_bytes = flag.positive()?,
                "enable-prefix-caching" => args.caches_prefixes = true,
                "no-enable-prefix-caching" => args.caches_prefixes = false,
                "enable-auto-tool-choice" => args.reads_calls = true,
                "tool-call-parser" => match flag.text()? {
                    "hermes" => parser = Some(()),
                    other => {
                        return Err(flag.invalid(format!(
                            "invalid tool call parser: {other} (chose from {{ hermes }})"
                        )));
                    }
                },
                "chat-template" => args.template = Some(PathBuf::from(flag.text()?)),
                "enable-lora" => args.lora.enabled = true,
                "lora-modules" => args.lora.modules = flag.adapters()?,
                "max-loras" => args.lora.max_adapters = flag.positive()?,
                "max-lora-rank" => args.lora.max_rank = flag.positive()?,
                "max-cpu-loras" => args.lora.max_in_memory = Some(flag.positive()?),
                "threads" => args.threads = flag.positive()?,
                "kv-transfer-config" => kv_transfer = Some(flag.value()?),
                "weights-as-shipped" => args.as_shipped = true,
                // It would change answers, so it is not passed over.
                "speculative-config" => {
                    return Err(flag.invalid("speculative decoding is not supported".into()));
                }
                name => args.server.ignored.push(format!("--{name}")),
            }
        }
        // As in vLLM, a value that is not set adapts to the other one.
        (args.max_num_seqs, args.max_batched_tokens) = match (max_num_seqs, max_batched_tokens) {
            (Some(seqs), Some(tokens)) if tokens < seqs => {
                return Err(ArgsError::Invalid {
                    flag: "--max-num-batched-tokens".into(),
                    reason: format!(
                        "max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs})."
                    ),
                });
            }
            (Some(seqs), tokens) => (seqs, tokens.unwrap_or(args.max_batched_tokens.max(seqs))),
            (None, Some(tokens)) => (args.max_num_seqs.min(tokens), tokens),
            (None, None) => (args.max_num_seqs, args.max_batched_tokens),
        };
        if let Some(max) = args.lora.max_in_memory.filter(|max| *max < args.lora.max_adapters) {
            return Err(ArgsError::Invalid {
                flag: "--max-cpu-loras".into(),
                reason: format!("{max} is less than `--max-loras`, which is {}", args.lora.max_adapters),
            });
        }
        if args.reads_calls && parser.is_none() {
            return Err(ArgsError::Missing("--tool-call-parser".into()));
        }
        if let Some(config) = kv_transfer {
            let ignored = config.ignored.iter().map(|field| format!("--kv-transfer-config {field}"));
            args.server.ignored.extend(ignored);
            args.kv_transfer = Some(Settings::new(config, args.server.address.ip(), variable)?);
        }
        args.lora.allows_updates = longboat_serving::allows_lora_updates(variable);
        Ok(args)
    }

    fn with_defaults(server: ServerArgs) -> Self {
        Self {
            server,
            max_model_len: None,
            max_num_seqs: 64,
            max_batched_tokens: 256,
            max_waiting: 1000,
            block_size: 16,
            cache_bytes: DEFAULT_CACHE_BYTES,
            caches_prefixes: true,
            as_shipped: false,
            kv_transfer: None,
            reads_calls: false,
            template: None,
            // vLLM's defaults.
            lora: LoraArgs {
                enabled: false,
                modules: Vec::new(),
                max_adapters: 1,
                max_rank: 16,
                max_in_memory: None,
                allows_updates: false,
            },
            program: None,
            threads: default_threads(),
        }
    }

    /// Renders chat templates in processes of this program, whose `main` calls [`crate::render_template`] for
    /// [`crate::TEMPLATE_ROLE`].
    #[must_use]
    pub fn with_program(self, program: PathBuf) -> Self {
        Self { program: Some(program), ..self }
    }

    /// The number of threads that compute.
    pub fn threads(&self) -> usize {
        self.threads
    }
}

/// Returns a flag's value unless it is above a limit.
fn at_most(flag: &Flag, value: usize, most: usize) -> Result<usize, ArgsError> {
    if value <= most { Ok(value) } else { Err(flag.invalid(format!("must be at most {most}"))) }
}

/// The default number of threads: half of the cores. candle's threads wait for each other in a busy loop, which costs more
/// than it brings if other programs use the same cores.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_an_effect_or_are_ignored_by_name_or_refused() {
        let args =
            Args::parse(&["/m", "--served-model-name", "a", "b", "--block-size=32", "--dtype", "auto"])
                .unwrap();
        assert_eq!((args.server.model.as_str(), args.block_size), ("/m", 32));
        assert_eq!(
            (args.server.names, args.server.ignored),
            (vec!["a".to_owned(), "b".into()], vec!["--dtype".to_owned()])
        );
        assert_eq!(Args::parse::<&str>(&[]), Err(ArgsError::NoModel));
        for (flag, most) in [("--block-size", 4096), ("--max-waiting-queue-length", 65536)] {
            let refused = Args::parse(&["/m", flag, "4611686018427387904"]).unwrap_err();
            assert_eq!(refused.to_string(), format!("flag `{flag}`: must be at most {most}"));
        }
        for (flags, expected) in [
            (&["/m", "--max-num-seqs=512"][..], (512, 512)),
            (&["/m", "--max-num-batched-tokens=8"], (8, 8)),
            (&["/m", "--max-num-seqs=8", "--max-num-batched-tokens=8"], (8, 8)),
            (&["/m"], (64, 256)),
        ] {
            let args = Args::parse(flags).unwrap();
            assert_eq!((args.max_num_seqs, args.max_batched_tokens), expected, "{flags:?}");
        }
        assert_eq!(
            Args::parse(&["/m", "--max-num-seqs=9", "--max-num-batched-tokens=8"]).unwrap_err().to_string(),
            "flag `--max-num-batched-tokens`: max_num_batched_tokens (8) must be greater than or equal to \
             max_num_seqs (9)."
        );
        let refused =
            Args::parse(&["/m", "--kv-transfer-config", r#"{"kv_connector": "LMCacheConnectorV1"}"#]);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "flag `--kv-transfer-config`: `{\"kv_connector\": \"LMCacheConnectorV1\"}`: the connector `LMCacheConnectorV1` is not \
             supported; NixlConnector is"
        );
    }

    #[test]
    fn flags_of_adapters_and_tools_are_parsed_as_in_vllm() {
        let json = r#"{"name": "b", "path": "/b", "base_model_name": "m"}"#;
        let args =
            Args::parse(&["/m", "--enable-lora", "--lora-modules", "a=/a", json, "--max-loras=2"]).unwrap();
        let adapter = |name: &str, base: Option<&str>| Adapter {
            name: name.into(),
            path: format!("/{name}"),
            base: base.map(Into::into),
        };
        assert_eq!(args.lora.modules, [adapter("a", None), adapter("b", Some("m"))]);
        assert_eq!((args.lora.max_adapters, args.lora.max_rank), (2, 16));
        assert_eq!(args.lora.max_in_memory, None);
        let flags = ["/m", "--max-loras=2", "--max-cpu-loras"];
        assert_eq!(Args::parse(&[&flags[..], &["3"]].concat()).unwrap().lora.max_in_memory, Some(3));
        assert_eq!(
            Args::parse(&[&flags[..], &["1"]].concat()).unwrap_err().to_string(),
            "flag `--max-cpu-loras`: 1 is less than `--max-loras`, which is 2"
        );
        for (value, on) in [("1", true), ("true", true), ("0", false)] {
            let args = Args::parse_with(&["/m"], &|_| Some(value.to_owned())).unwrap();
            assert_eq!(args.lora.allows_updates, on, "{value}");
        }
        let refused = |flags: &[&str]| Args::parse(&[&["/m"], flags].concat()).unwrap_err().to_string();
        assert_eq!(
            refused(&["--lora-modules", "a=/a"]),
            "flag `--lora-modules`: LoRA is not enabled. Use --enable-lora to enable LoRA."
        );
        assert_eq!(
            refused(&["--enable-lora", "--lora-modules", "a"]),
            "flag `--lora-modules`: `a`: expected NAME=PATH, or JSON with `name` and `path`"
        );
        assert_eq!(refused(&["--enable-auto-tool-choice"]), "flag `--tool-call-parser` needs a value");
        assert_eq!(
            refused(&["--tool-call-parser", "pythonic"]),
            "flag `--tool-call-parser`: invalid tool call parser: pythonic (chose from { hermes })"
        );
    }
}
