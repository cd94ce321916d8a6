//! The command line, with the flags of the reference.

mod moriio;

use std::{
    ffi::OsString,
    fs::File,
    io::{BufReader, Read as _},
    net::IpAddr,
    time::Duration,
};

use clap::ArgAction;
use serde_json::Value;

use longboat_api::groups;
use longboat_quantity::duration;
use longboat_telemetry::{
    logging::{Format, LogOptions},
    zap::{Level, Zap},
};

use crate::error::Error;

pub use moriio::MoriioArgs;

/// The flags of the sidecar. Pass arguments through [`expanded`] before clap sees them.
#[derive(Debug, Clone, clap::Args)]
#[command(args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// Port to listen on.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Port of the engine beside the sidecar [default: 8200].
    #[arg(long)]
    pub model_server_port: Option<u16>,
    /// Former name of --model-server-port, which takes precedence.
    #[arg(long)]
    pub vllm_port: Option<u16>,
    /// Number of data-parallel ranks: port+i forwards to the engine of rank i on model-server-port+i.
    #[arg(long, default_value_t = 1)]
    pub data_parallel_size: u16,
    /// Protocol for the transfer of KV caches to the decoder: nixlv2, shared-storage, sglang, mooncake or offloading.
    #[arg(long, alias = "connector", default_value = "nixlv2")]
    pub kv_connector: String,
    /// Connector for encoding images, videos and audio on the pods in the header x-encoder-hosts-ports. The prefiller gets
    /// the results from a storage (ec-example) or from the encoder (ec-nixl) [default: none].
    #[arg(long, default_value = "")]
    pub ec_connector: String,
    /// Serve TLS.
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub secure_proxy: bool,
    /// Folder with tls.crt and tls.key, reloaded when they change [default: a self-signed certificate].
    #[arg(long, default_value = "")]
    pub cert_path: String,
    /// Stages to connect to with TLS: prefiller, decoder, encoder; repeatable, or separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub enable_tls: Vec<String>,
    /// Stages whose certificates are not verified; repeatable, or separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub tls_insecure_skip_verify: Vec<String>,
    /// Send prompts only to pods of the InferencePool.
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub enable_ssrf_protection: bool,
    /// InferencePool as NAMESPACE/NAME; a name without namespace is in namespace `default`.
    #[arg(long, env = "INFERENCE_POOL", default_value = "")]
    pub inference_pool: String,
    /// API group of the InferencePool; inference.networking.x-k8s.io means version v1alpha2.
    #[arg(long, default_value = groups::POOL)]
    pub pool_group: String,
    /// Choose a random prefill endpoint instead of the first one.
    #[arg(long, env = "ENABLE_PREFILLER_SAMPLING", action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub enable_prefiller_sampling: bool,
    /// Number of retries of a prefill that failed with 502, 503 or 504, or without a response.
    #[arg(long, default_value_t = 0)]
    pub prefill_max_retries: u32,
    /// Wait before a retry of a prefill.
    #[arg(long, default_value = "200ms", value_parser = duration::parse)]
    pub prefill_retry_backoff: Duration,
    /// Time limit of a prefill with all its retries, and of the encoding of one item; 0s means no limit.
    #[arg(long, default_value = "10m", value_parser = duration::parse)]
    pub prefill_timeout: Duration,
    /// Let the decoder compute the prompt if a prefill fails because of the prefiller, as releases up to 0.7 did.
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub decode_on_prefill_failure: bool,
    /// nixlv2, chat requests: number of tokens to request from the decoder at a time; 0 for all at once.
    #[arg(long, default_value_t = 0)]
    pub decode_chunk_size: u32,
    /// JSON object that has, for names of models, the fields that requests for them get on the way to the engines, such as
    /// {"sql": {"lora_path": "sql"}}. Fields that the client has set stay.
    #[arg(long, default_value = "")]
    pub model_fields: String,
    /// Maximum number of idle connections to each endpoint.
    #[arg(long, default_value_t = 1024)]
    pub max_idle_conns_per_host: usize,
    /// Maximum size of a request body, in MiB.
    #[arg(long, default_value_t = 64)]
    pub max_request_body_mib: usize,
    /// Port of Prometheus metrics; 0 for none.
    #[arg(long, default_value_t = 0)]
    pub metrics_port: u16,
    /// sglang: port on which prefillers wait for decoders.
    #[arg(long, env = "SGLANG_BOOTSTRAP_PORT", default_value_t = 8998)]
    pub sglang_bootstrap_port: u16,
    /// mooncake: port on which prefillers report their engines.
    #[arg(long, env = "MOONCAKE_BOOTSTRAP_PORT", default_value_t = 8998)]
    pub mooncake_bootstrap_port: u16,
    /// offloading, and nixlv2 with --enable-p2p-pull: port on which the engine of rank 0 serves its KV cache to other
    /// engines; rank i uses this port plus i.
    #[arg(long, env = "P2P_CONNECTOR_PORT", default_value_t = 7777)]
    pub p2p_connector_port: u16,
    /// nixlv2: let engines pull KV cache from the engine in the header x-kv-cache-source-host-port. Always on with
    /// offloading.
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub enable_p2p_pull: bool,
    /// Prefillers that write caches into the decoder's memory.
    #[command(flatten)]
    pub moriio: MoriioArgs,
    /// Send traces of requests, if OpenTelemetry's environment variables name a collector (docs/guides/tracing.md).
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub tracing: bool,
    /// Log verbosity: 0 for operators, higher for details, 5 and more includes libraries.
    #[arg(long = "v", short = 'v', value_name = "LEVEL")]
    pub verbosity: Option<u8>,
    /// How to log.
    #[command(flatten)]
    pub zap: Zap,
    /// The address of this pod, by which a request names one of its ranks.
    #[arg(skip = std::env::var("POD_IP").unwrap_or_default())]
    pub pod_ip: String,
    /// The address to listen on and of the engine. `None` means all addresses, and `localhost` for the engine. On a local
    /// node, each pod has an address of its own.
    #[arg(skip)]
    pub address: Option<IpAddr>,
    /// Accepted and ignored, as in upstream.
    #[arg(hide = true)]
    pub ignored: Vec<String>,
}

// === impl Args ===

impl Args {
    /// The log options. Without flags, they are the same as in all other roles.
    pub fn log_options(&self) -> LogOptions {
        let mut zap = self.zap.clone();
        if let (None, Some(verbosity)) = (zap.zap_log_level, self.verbosity) {
            zap.zap_log_level = Some(if verbosity == 0 { Level::Info } else { Level::Detail(verbosity) });
        }
        if zap == Zap::default() {
            return LogOptions {
                format: Format::of_environment(),
                default_filter: "info".into(),
                ..LogOptions::default()
            };
        }
        zap.options()
    }
}

/// The flags as a program of their own.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
pub(crate) struct Program {
    #[command(flatten)]
    pub(crate) args: Args,
}

/// Parses a boolean as Go does, because templates may use its words. An empty variable counts as unset.
fn parse_go_bool(word: &str) -> Result<bool, String> {
    match word {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
        "" | "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// The longest configuration document. All flags together are far shorter.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// Flags that hold lists. Repeated lists are merged.
const LISTS: [&str; 4] =
    ["enable-tls", "tls-insecure-skip-verify", "moriio-remote-hosts", "moriio-decode-hosts"];

/// Flags that hold a document with further flags.
const DOCUMENTS: [&str; 2] = ["configuration", "configuration-file"];

/// Converts arguments to the form that clap takes. The documents of `--configuration` and `--configuration-file` become
/// flags. Flags on the command line win.
pub fn expanded(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>, Error> {
    let mut rest = Vec::new();
    let mut documents = Vec::new();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        let (name, value) =
            text.split_once('=').map_or((text.as_str(), None), |(name, value)| (name, Some(value)));
        let Some(flag) = DOCUMENTS.into_iter().find(|flag| name.strip_prefix("--") == Some(flag)) else {
            rest.push(argument);
            continue;
        };
        let value = match value {
            Some(value) => value.to_owned(),
            None => arguments.next().map(|next| next.to_string_lossy().into_owned()).unwrap_or_default(),
        };
        if !value.is_empty() {
            documents.push((flag, value));
        }
    }
    match documents.as_slice() {
        [] => Ok(rest),
        [(flag, value)] => {
            let wrong = |message: String| Error::flag(flag, message);
            let text = if *flag == "configuration" {
                value.clone()
            } else {
                document(value).map_err(|error| wrong(format!("{value}: {error}")))?
            };
            let document_flags = flags(&text, &rest).map_err(wrong)?;
            // The flags of the document come before the given flags, because the last value of a flag counts, also under
            // another name.
            let first = rest.iter().position(|argument| argument.to_string_lossy().starts_with('-'));
            let first = first.unwrap_or(rest.len());
            rest.splice(first..first, document_flags);
            Ok(rest)
        }
        _ => Err(Error::flag("configuration", "use this flag or --configuration-file, not both")),
    }
}

fn document(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?.take(MAX_DOCUMENT_BYTES + 1);
    BufReader::new(file).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        let message = format!("it is longer than {MAX_DOCUMENT_BYTES} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// The flags that a YAML document stands for, without lists that the arguments have already.
fn flags(document: &str, arguments: &[OsString]) -> Result<Vec<OsString>, String> {
    let value: Value = serde_saphyr::from_str(document).map_err(|error| error.to_string())?;
    let Value::Object(entries) = value else {
        return Err("expected a mapping of flag names to values".into());
    };
    let is_given = |name: &str| {
        arguments.iter().filter_map(|argument| argument.to_str()).any(|argument| {
            argument
                .strip_prefix("--")
                .is_some_and(|argument| argument.split('=').next().is_some_and(|flag| flag == name))
        })
    };
    let mut flags = Vec::new();
    for (name, value) in entries {
        if LISTS.contains(&name.as_str()) && is_given(&name) {
            continue;
        }
        let text = match value {
            Value::Array(items) => {
                let items: Option<Vec<String>> = items.iter().map(scalar).collect();
                items.map(|items| items.join(","))
            }
            value => scalar(&value),
        };
        let text = text.ok_or_else(|| format!("`{name}`: expected a scalar or a list of scalars"))?;
        flags.push(format!("--{name}={text}").into());
    }
    Ok(flags)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn expand(arguments: &[&str]) -> Result<Vec<String>, String> {
        expanded(arguments.iter().map(OsString::from))
            .map(|arguments| arguments.iter().map(|argument| argument.to_string_lossy().into()).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_document_becomes_flags_and_the_command_line_wins() {
        assert_eq!(
            expand(&[
                "--configuration={port: 1, secure-proxy: false, enable-tls: [decoder, prefiller]}",
                "--port=2"
            ])
            .unwrap(),
            ["--enable-tls=decoder,prefiller", "--port=1", "--secure-proxy=false", "--port=2"]
        );
        let named = |arguments: &[&str]| {
            let all = expand(arguments).unwrap();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            parsed(&all).map(|args| (args.kv_connector, args.verbosity, args.enable_tls))
        };
        let document =
            "--configuration={kv-connector: sglang, v: 5, enable-tls: [decoder, encoder], port: 1}";
        let tls = |stages: &[&str]| stages.iter().map(|stage| (*stage).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            named(&["--connector=mooncake", "-v=1", document, "--enable-tls=prefiller"]).unwrap(),
            ("mooncake".into(), Some(1), tls(&["prefiller"])),
            "by another name, too"
        );
        assert_eq!(named(&[document]).unwrap(), ("sglang".into(), Some(5), tls(&["decoder", "encoder"])));
        // What is overridden is read all the same.
        assert!(named(&["--configuration={port: x}", "--port=2"]).is_err());
    }

    #[test]
    fn two_documents_or_a_wrong_one_are_refused() {
        assert!(expand(&["--configuration={}", "--configuration-file=/nope"]).is_err());
        assert!(expand(&["--configuration=[1]"]).is_err());
        assert!(expand(&["--configuration={port: {a: 1}}"]).unwrap_err().contains("`port`"));
    }

    #[test]
    fn a_document_has_an_end() {
        let folder = std::env::temp_dir().join(format!("longboat-sidecar-{}", uuid::Uuid::new_v4()));
        std::fs::write(&folder, format!("port: 1\n# {}", "x".repeat(1 << 20))).unwrap();
        let refused = expand(&[&format!("--configuration-file={}", folder.display())]).unwrap_err();
        std::fs::remove_file(&folder).unwrap();
        assert!(refused.contains("longer than"), "{refused}");
    }

    fn parsed(arguments: &[&str]) -> Result<Args, clap::Error> {
        Program::try_parse_from(arguments).map(|program| program.args)
    }

    #[test]
    fn yes_and_no_are_said_as_in_go() {
        for (word, expected) in [("", true), ("=True", true), ("=1", true), ("=0", false), ("=F", false)] {
            let flag = format!("--secure-proxy{word}");
            assert_eq!(parsed(&[&flag]).unwrap().secure_proxy, expected, "{flag}");
        }
        assert!(parsed(&["--secure-proxy=yes"]).is_err());
    }

    #[test]
    fn flags_say_how_to_log() {
        let options = |arguments: &[&str]| parsed(arguments).unwrap().log_options();
        assert_eq!(options(&[]).filter, None);
        let detailed = options(&["-v=2"]);
        assert_eq!(detailed, options(&["--zap-log-level=2"]));
        assert_ne!(detailed.filter, options(&["--zap-log-level=error", "-v=2"]).filter);
    }
}
