//! The command line, with the flags of the reference.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, time::Duration};

use clap::ArgAction;
use longboat_accept::POD_ADDRESS_VARIABLE;
use longboat_api::groups;
use longboat_telemetry::logging::{Format, LogOptions};

use longboat_quantity::duration;

use longboat_scheduler::quantity;

/// The shortest interval between two scrapes of an endpoint, as in llm-d.
const MIN_SCRAPE_INTERVAL: Duration = Duration::from_millis(50);

/// The flags of the picker. Pass arguments through [`normalized`] before clap sees them. The last value of a repeated flag
/// counts, because presets put flags into `command` and users repeat them in `args`.
#[derive(Debug, Clone, clap::Args)]
#[command(args_override_self = true, next_line_help = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// Port of the ext_proc server.
    #[arg(long, default_value_t = 9002)]
    pub grpc_port: u16,
    /// Port of gRPC health checks, always without TLS.
    #[arg(long, default_value_t = 9003)]
    pub grpc_health_port: u16,
    /// Port of Prometheus metrics.
    #[arg(long, default_value_t = 9090)]
    pub metrics_port: u16,
    /// Name of the InferencePool to pick from.
    #[arg(long, default_value = "")]
    pub pool_name: String,
    /// Namespace of the InferencePool [default: $NAMESPACE, else "default"].
    #[arg(long, default_value = "")]
    pub pool_namespace: String,
    /// API group of the InferencePool; inference.networking.x-k8s.io means version v1alpha2. If the pool does not exist in
    /// this group, the other group is tried.
    #[arg(long, default_value = groups::POOL)]
    pub pool_group: String,
    /// Label selector of the pods, instead of a pool.
    #[arg(long, default_value = "")]
    pub endpoint_selector: String,
    /// Ports of each pod, 1 to 8, instead of a pool.
    #[arg(long, value_delimiter = ',')]
    pub endpoint_target_ports: Vec<u16>,
    /// Be ready only while holding the leader election lease.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub ha_enable_leader_election: bool,
    /// Time to serve after SIGTERM [default: 30s, and none on a loopback address].
    #[arg(long, value_parser = duration::parse)]
    pub drain_timeout: Option<Duration>,
    /// Maximum size of a received message, as a Kubernetes quantity [default: 4Mi].
    #[arg(long, default_value = "")]
    pub grpc_max_recv_msg_size: String,
    /// Maximum size of a sent message, as a Kubernetes quantity.
    #[arg(long, default_value = "")]
    pub grpc_max_send_msg_size: String,
    /// Maximum size of a request body, as a Kubernetes quantity.
    #[arg(long, default_value = "64Mi", value_parser = quantity::parse)]
    pub max_request_body_size: usize,
    /// Maximum size of all request bodies in memory together, as a Kubernetes quantity. Requests above it get status 503.
    /// While a body is received, it counts with up to twice its size. Answers that wait for the proxy count too.
    #[arg(long, default_value = "256Mi", value_parser = quantity::parse)]
    pub max_request_bytes_in_flight: usize,
    /// Ignore the subset hint of the proxy.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub disable_endpoint_subset_filter: bool,
    /// Put the scores of endpoints into the dynamic metadata.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub emit_endpoint_scores: bool,
    /// Interval between two scrapes of an endpoint, at least 50ms.
    #[arg(long, default_value = "50ms", value_parser = duration::parse)]
    pub refresh_metrics_interval: Duration,
    /// Accepted without effect: the metrics of the pool are computed for each scrape.
    #[arg(long, default_value = "5s", value_parser = duration::parse)]
    pub refresh_prometheus_metrics_interval: Duration,
    /// Maximum age of scraped metrics; older metrics are ignored.
    #[arg(long, default_value = "2s", value_parser = duration::parse)]
    pub metrics_staleness_threshold: Duration,
    /// Send traces of requests, if OpenTelemetry's environment variables name a collector (docs/guides/tracing.md).
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub tracing: bool,
    /// Answer health checks on the ext_proc port too.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub health_checking: bool,
    /// Accepted without effect: profiles are not served.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub enable_pprof: bool,
    /// Serve ext_proc with TLS.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub secure_serving: bool,
    /// Folder with tls.crt and tls.key [default: a self-signed certificate].
    #[arg(long, default_value = "")]
    pub cert_path: String,
    /// File with CA certificates. Callers of ext_proc must then have a client certificate that one of these CAs has signed.
    #[arg(long, default_value = "")]
    pub client_ca_file: String,
    /// Accepted without effect: changed certificates are always reloaded.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub enable_cert_reload: bool,
    /// Accepted without effect: TLS 1.2 and 1.3 are supported.
    #[arg(long, default_value = "")]
    pub tls_min_version: String,
    /// Accepted without effect: the cipher suites are those of rustls.
    #[arg(long, value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,
    /// Authorize clients of the metrics at the API server, except with endpoints from a file or on a loopback address.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub metrics_endpoint_auth: bool,
    /// Folder with tls.crt and tls.key for the metrics port [default: no TLS].
    #[arg(long, default_value = "")]
    pub metrics_cert_dir: String,
    /// Not supported: refused if set.
    #[arg(long, default_value = "")]
    pub metrics_client_ca_file: String,
    /// Measure the number of ext_proc streams by status, and their duration.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub enable_grpc_stream_metrics: bool,
    /// File with the EndpointPickerConfig.
    #[arg(long, alias = "configFile", default_value = "")]
    pub config_file: String,
    /// EndpointPickerConfig as text.
    #[arg(long, alias = "configText", default_value = "")]
    pub config_text: String,
    /// Allow alpha plugins.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub allow_experimental_plugins: bool,
    /// Feature gates, such as flowControl=true. They count more than `featureGates` of the configuration.
    #[arg(long, value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Scheme of the endpoints' metrics, if the configuration does not set it.
    #[arg(long)]
    pub model_server_metrics_scheme: Option<String>,
    /// Path of the endpoints' metrics, if the configuration does not set it.
    #[arg(long)]
    pub model_server_metrics_path: Option<String>,
    /// Port of the endpoints' metrics, if the configuration does not set it.
    #[arg(long)]
    pub model_server_metrics_port: Option<u16>,
    /// Accepted without effect: the configuration decides whether certificates of endpoints are verified.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub model_server_metrics_https_insecure_skip_verify: bool,
    /// Refused if set.
    #[arg(long, hide = true)]
    pub total_queued_requests_metric: Option<String>,
    /// Refused if set.
    #[arg(long, hide = true)]
    pub total_running_requests_metric: Option<String>,
    /// Refused if set.
    #[arg(long, hide = true)]
    pub kv_cache_usage_percentage_metric: Option<String>,
    /// Refused if set.
    #[arg(long, hide = true)]
    pub lora_info_metric: Option<String>,
    /// Refused if set.
    #[arg(long, hide = true)]
    pub cache_info_metric: Option<String>,
    /// Number of recent decisions to keep in memory for `GET /debug/decisions` on the metrics port and `longboat why`, at
    /// most 4096 [default: 256 on a loopback address, else 0].
    #[arg(long, value_parser = clap::value_parser!(u16).range(..=4096))]
    pub decisions: Option<u16>,
    /// Write a trace of the requests to this file, or to a file in this folder, for `longboat simulate --trace`: times, lengths and
    /// hashes, no prompts. Each picker needs a file of its own [default: no trace].
    #[arg(long, env = "LONGBOAT_WRITE_TRACE", value_name = "PATH")]
    pub write_trace: Option<PathBuf>,
    /// Size at which the file of a trace becomes FILE.1 and a new one begins, as a Kubernetes quantity.
    #[arg(long, default_value = "64Mi", value_parser = quantity::parse)]
    pub max_trace_size: usize,
    /// Log verbosity: 0 to 2 is INFO, 3 and 4 is DEBUG, more is TRACE.
    #[arg(short = 'v', long = "v", default_value_t = 2)]
    pub verbosity: u8,
    /// Log level: debug, info, error, panic or a number. Overrides -v.
    #[arg(long)]
    pub zap_log_level: Option<String>,
    /// Log format: json or console [default: json in a pod of a cluster, else console].
    #[arg(long)]
    pub zap_encoder: Option<String>,
    /// Accepted.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide = true)]
    pub zap_devel: bool,
    /// Accepted.
    #[arg(long, default_value = "", hide = true)]
    pub zap_stacktrace_level: String,
    /// Accepted.
    #[arg(long, default_value = "", hide = true)]
    pub zap_time_encoding: String,
    /// Address to listen on [default: all addresses].
    #[arg(long, env = POD_ADDRESS_VARIABLE, default_value = "")]
    pub bind_address: String,
    /// Namespace of the pool if --pool-namespace is not given.
    #[arg(long, env = "NAMESPACE", default_value = "default", hide = true)]
    pub own_namespace: String,
    /// Name of this pod, which is the holder of the lease.
    #[arg(long, env = "POD_NAME", default_value = "", hide = true)]
    pub pod_name: String,
    /// Whether the gateway of this machine picks in its own process, so that this process leaves it the pod's ports.
    #[arg(long, env = "LONGBOAT_GATEWAY_PICKS", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide = true)]
    pub gateway_picks: bool,
    /// Empty arguments, which templates leave if an option is off.
    #[arg(hide = true)]
    pub rest: Vec<String>,
}

/// Errors in the combination or the values of flags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// An argument that is not a flag.
    #[error("unexpected argument \"{0}\"")]
    Positional(String),
    /// The flags give both a pool and a selector, or neither.
    #[error("set either --pool-name, or --endpoint-selector with --endpoint-target-ports")]
    Source,
    /// Ports are missing, zero or too many.
    #[error("--endpoint-target-ports takes 1 to 8 ports")]
    TargetPorts,
    /// The configuration is given both as a file and as text.
    #[error("--config-file and --config-text cannot be used together")]
    Config,
    /// A value that cannot be used.
    #[error("--{flag}: {message}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        message: String,
    },
}

/// The flags as a program of their own.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct Program {
    #[command(flatten)]
    args: Args,
}

impl Args {
    /// Reads the arguments of a picker, as they follow the name of its program.
    pub fn parse(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self, clap::Error> {
        let arguments = normalized(arguments.into_iter().map(Into::into));
        <Program as clap::Parser>::try_parse_from(arguments).map(|program| program.args)
    }

    /// The identity of the lease holder, as people see it in the lease: the pod's name. If the pod's name is not given, this is
    /// the host name, which equals it in a pod.
    pub(crate) fn holder(&self) -> String {
        if self.pod_name.is_empty() {
            return std::env::var("HOSTNAME").unwrap_or_default();
        }
        self.pod_name.clone()
    }

    /// The namespace of the pool.
    pub fn namespace(&self) -> &str {
        [&self.pool_namespace, &self.own_namespace]
            .into_iter()
            .find(|namespace| !namespace.is_empty())
            .map_or("default", String::as_str)
    }

    /// The target ports in the order given. A port that is given twice is one: it would be two endpoints with the same address.
    pub(crate) fn target_ports(&self) -> Vec<u16> {
        let mut ports = Vec::new();
        for port in &self.endpoint_target_ports {
            if !ports.contains(port) {
                ports.push(*port);
            }
        }
        ports
    }

    /// The log options. Go's verbosity has any number of levels; ours has three.
    pub fn log_options(&self) -> LogOptions {
        let verbosity = match self.log_level().as_str() {
            "" => self.verbosity,
            "debug" => 4,
            "info" => 2,
            "error" | "panic" => return self.filtered("error".to_owned()),
            // `check` refuses any other text.
            number => number.parse().unwrap_or(self.verbosity),
        };
        let level = match verbosity {
            0..=2 => "info",
            3..=4 => "debug",
            5.. => "trace",
        };
        self.filtered(format!("{level},hyper=warn,h2=warn,tower=warn,rustls=warn,kube=info"))
    }

    /// --zap-log-level in lower case: the reference takes either.
    fn log_level(&self) -> String {
        self.zap_log_level.as_deref().unwrap_or_default().to_ascii_lowercase()
    }

    fn filtered(&self, default_filter: String) -> LogOptions {
        let format = match &self.zap_encoder {
            None => Format::of_environment(),
            Some(encoder) if encoder.eq_ignore_ascii_case("console") => Format::Text,
            Some(_) => Format::Json,
        };
        LogOptions { format, default_filter, ..LogOptions::default() }
    }

    /// Checks the rules that clap cannot express. `file` says that endpoints come from a discovery file.
    pub fn check(&self, file: bool) -> Result<(), ArgsError> {
        self.check_values(file)?;
        self.check_trace_folder()
    }

    /// The rules that do not depend on the machine on which the picker runs.
    fn check_values(&self, file: bool) -> Result<(), ArgsError> {
        if let Some(rest) = self.rest.iter().find(|argument| !argument.is_empty()) {
            return Err(ArgsError::Positional(rest.clone()));
        }
        if !self.config_file.is_empty() && !self.config_text.is_empty() {
            return Err(ArgsError::Config);
        }
        let (pool, selector) = (!self.pool_name.is_empty(), !self.endpoint_selector.is_empty());
        if !file && pool == selector {
            return Err(ArgsError::Source);
        }
        let ports = self.target_ports();
        if selector && (ports.is_empty() || ports.len() > 8 || ports.contains(&0)) {
            return Err(ArgsError::TargetPorts);
        }
        for (wrong, flag, message) in [
            (
                self.max_request_bytes_in_flight < self.max_request_body_size,
                "max-request-bytes-in-flight",
                "must not be less than --max-request-body-size",
            ),
            (
                !self.client_ca_file.is_empty() && !self.secure_serving,
                "client-ca-file",
                "needs --secure-serving: without TLS, callers have no certificates",
            ),
            (
                !self.metrics_client_ca_file.is_empty(),
                "metrics-client-ca-file",
                "client certificates are not supported",
            ),
        ] {
            if wrong {
                return Err(ArgsError::Value { flag, message: message.to_owned() });
            }
        }
        for (flag, name) in [
            ("total-queued-requests-metric", &self.total_queued_requests_metric),
            ("total-running-requests-metric", &self.total_running_requests_metric),
            ("kv-cache-usage-percentage-metric", &self.kv_cache_usage_percentage_metric),
            ("lora-info-metric", &self.lora_info_metric),
            ("cache-info-metric", &self.cache_info_metric),
        ] {
            if name.is_some() {
                let message = "set it in engineConfigs of core-metrics-extractor".to_owned();
                return Err(ArgsError::Value { flag, message });
            }
        }
        let one_of = |flag, found: &str, expected: &str| ArgsError::Value {
            flag,
            message: format!("expected {expected}, found \"{found}\""),
        };
        if let Some(encoder) = &self.zap_encoder
            && !["json", "console"].iter().any(|known| encoder.eq_ignore_ascii_case(known))
        {
            return Err(one_of("zap-encoder", encoder, "json or console"));
        }
        let level = self.log_level();
        if !["", "debug", "info", "error", "panic"].contains(&level.as_str()) && level.parse::<u8>().is_err()
        {
            return Err(one_of("zap-log-level", &level, "debug, info, error, panic or a number up to 255"));
        }
        for (flag, size) in [
            ("grpc-max-recv-msg-size", &self.grpc_max_recv_msg_size),
            ("grpc-max-send-msg-size", &self.grpc_max_send_msg_size),
        ] {
            if !size.is_empty() {
                quantity::parse(size).map_err(|message| ArgsError::Value { flag, message })?;
            }
        }
        Ok(())
    }

    fn check_trace_folder(&self) -> Result<(), ArgsError> {
        if let Some(path) = &self.write_trace
            && !path.is_dir()
            && !path.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir())
        {
            return Err(ArgsError::Value {
                flag: "write-trace",
                message: format!("{}: its folder does not exist; mount a volume there", path.display()),
            });
        }
        Ok(())
    }

    /// The interval between two scrapes of an endpoint.
    pub(crate) fn scrape_interval(&self) -> Duration {
        self.refresh_metrics_interval.max(MIN_SCRAPE_INTERVAL)
    }

    /// Warnings about flags whose values are not used.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.refresh_metrics_interval < MIN_SCRAPE_INTERVAL {
            warnings.push(
                "--refresh-metrics-interval: the picker scrapes every 50ms, which is the shortest interval",
            );
        }
        if self.tls_min_version == "VersionTLS13" {
            warnings.push("--tls-min-version has no effect: the picker always accepts TLS 1.2 and 1.3");
        }
        if !self.tls_cipher_suites.is_empty() {
            warnings.push(
                "--tls-cipher-suites has no effect: the picker always uses the default cipher suites of \
                 rustls",
            );
        }
        warnings
    }

    /// The address to listen on, if one is given.
    pub(crate) fn address(&self) -> Result<Option<IpAddr>, ArgsError> {
        if self.bind_address.is_empty() {
            return Ok(None);
        }
        self.bind_address.parse().map(Some).map_err(|_| ArgsError::Value {
            flag: "bind-address",
            message: format!("\"{}\" is not an IP address", self.bind_address),
        })
    }

    /// The number of decisions to keep.
    pub(crate) fn kept_decisions(&self) -> Result<usize, ArgsError> {
        let usual = self.address()?.map_or(0, default_decisions);
        Ok(self.decisions.unwrap_or(usual).into())
    }

    /// The folder of the serving certificate.
    pub(crate) fn certificate_folder(&self) -> Option<PathBuf> {
        (!self.cert_path.is_empty()).then(|| PathBuf::from(&self.cert_path))
    }
}

/// The number of decisions to keep where no flag says it. Only the local user reaches a loopback address.
pub(crate) fn default_decisions(address: IpAddr) -> u16 {
    if address.is_loopback() { 256 } else { 0 }
}

/// Returns why no picker starts with these arguments, wherever it runs. `None` if that depends on its pod.
pub fn refusal(arguments: &[String]) -> Option<String> {
    // The configuration may name a file with the endpoints.
    let endpoints_in_file = true;
    match Args::parse(arguments.iter().filter(|argument| !argument.is_empty())) {
        Ok(args) => args.check_values(endpoints_in_file).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Converts arguments to the form that clap takes. Go's flag package also accepts `-long-name`, and some templates still use
/// this form.
pub fn normalized(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    arguments
        .into_iter()
        .map(|argument| {
            let Some(text) = argument.to_str() else {
                return argument;
            };
            let is_long = text.strip_prefix('-').is_some_and(|name| {
                name.len() > 1
                    && name.starts_with(|first: char| first.is_ascii_alphabetic())
                    && name[1..].starts_with(|second: char| second.is_ascii_alphabetic() || second == '-')
            });
            if is_long { OsString::from(format!("-{text}")) } else { argument }
        })
        .collect()
}
