//! The settings, read from the flags and checked.

use std::{net::IpAddr, path::PathBuf, time::Duration};

pub(crate) mod moriio;
mod transfer;

use longboat_api::groups;

use crate::{
    args::Args,
    connectors::{encoder::Encoder, p2p},
    error::Error,
    model_fields::ModelFields,
};

pub(crate) use moriio::Moriio;
pub(crate) use transfer::Transfer;

/// The stages whose connections can use TLS.
const STAGES: [&str; 3] = ["prefiller", "decoder", "encoder"];

/// The default port of the engine.
const ENGINE_PORT: u16 = 8200;

/// The checked settings of the sidecar.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) address: Option<IpAddr>,
    pub(crate) ranks: Vec<Rank>,
    /// `POD_IP`. Requests name a rank by this address and a port.
    pub(crate) pod_ip: String,
    /// The server's TLS: none, self-signed, or from a folder.
    pub(crate) serving: ServerTls,
    pub(crate) transfer: Transfer,
    /// The encoder stage, if there is one.
    pub(crate) encoder: Option<Encoder>,
    /// The tokens per chunk. `None` if the decoder generates all tokens at once.
    pub(crate) chunk: Option<u64>,
    /// The mode in which prefillers write caches into the decoder's memory.
    pub(crate) moriio: Option<Moriio>,
    /// The ports for pulling blocks from other engines. `None` if this is off.
    pub(crate) pull: Option<p2p::Ports>,
    pub(crate) prefiller: Leg,
    pub(crate) decoder: Leg,
    pub(crate) encoders: Leg,
    /// The pool whose pods prompts may be sent to. `None` if any target is allowed.
    pub(crate) allowed: Option<Pool>,
    pub(crate) sampling: bool,
    pub(crate) retries: u32,
    pub(crate) backoff: Duration,
    /// The time limit of a prefill, and of the encoding of an item. `None` if only the client's patience limits them.
    pub(crate) patience: Option<Duration>,
    pub(crate) fall_back: bool,
    pub(crate) idle_connections: usize,
    pub(crate) body_limit: usize,
    /// The fields that requests for a model get.
    pub(crate) model_fields: ModelFields,
    pub(crate) metrics_port: Option<u16>,
}

/// One engine, and the sidecar's port for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) port: u16,
    pub(crate) engine: u16,
}

/// The server's TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerTls {
    Plain,
    SelfSigned,
    Folder(PathBuf),
}

/// The TLS settings for connections to a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leg {
    pub(crate) tls: bool,
    pub(crate) verify: bool,
}

/// An InferencePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) group: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

// === impl Leg ===

impl Leg {
    /// Whether the server's certificate is verified.
    pub(crate) fn is_verified(self) -> bool {
        self.tls && self.verify
    }
}

// === impl Settings ===

impl Settings {
    /// Whether the certificates of any stage are verified.
    pub(crate) fn verifies(&self) -> bool {
        [self.prefiller, self.decoder, self.encoders].into_iter().any(Leg::is_verified)
    }
}

impl TryFrom<Args> for Settings {
    type Error = Error;

    fn try_from(args: Args) -> Result<Self, Error> {
        let transfer = transfer::of(&args)?;
        let message = "expected more than 0s, because retries need a delay";
        let can_retry = args.prefill_max_retries == 0 || !args.prefill_retry_backoff.is_zero();
        Error::require(can_retry, "prefill-retry-backoff", message)?;
        let message = "expected 1 or more, because 0 would refuse all requests";
        Error::require(args.max_request_body_mib > 0, "max-request-body-mib", message)?;
        for (flag, stages) in
            [("enable-tls", &args.enable_tls), ("tls-insecure-skip-verify", &args.tls_insecure_skip_verify)]
        {
            if let Some(stage) = stages.iter().find(|stage| !STAGES.contains(&stage.as_str())) {
                let message = format!("unknown stage `{stage}`; expected {}", STAGES.join(", "));
                return Err(Error::Flag { flag, message });
            }
        }
        let leg = |stage: &str| Leg {
            tls: args.enable_tls.iter().any(|name| name == stage),
            verify: !args.tls_insecure_skip_verify.iter().any(|name| name == stage),
        };
        let serving = match (args.secure_proxy, args.cert_path.as_str()) {
            (false, _) => ServerTls::Plain,
            (true, "") => ServerTls::SelfSigned,
            (true, folder) => ServerTls::Folder(folder.into()),
        };
        Ok(Self {
            address: args.address,
            ranks: ranks(&args)?,
            serving,
            pull: transfer::pull(&args, &transfer)?,
            moriio: moriio::of(&args)?,
            transfer,
            prefiller: leg("prefiller"),
            decoder: leg("decoder"),
            encoders: leg("encoder"),
            encoder: transfer::encoder(&args)?,
            chunk: transfer::chunk(&args)?,
            allowed: allowed(&args)?,
            sampling: args.enable_prefiller_sampling,
            retries: args.prefill_max_retries,
            backoff: args.prefill_retry_backoff,
            patience: (!args.prefill_timeout.is_zero()).then_some(args.prefill_timeout),
            fall_back: args.decode_on_prefill_failure,
            idle_connections: args.max_idle_conns_per_host,
            body_limit: args.max_request_body_mib.saturating_mul(1 << 20),
            model_fields: ModelFields::of(&args.model_fields)?,
            metrics_port: (args.metrics_port != 0).then_some(args.metrics_port),
            pod_ip: args.pod_ip,
        })
    }
}

fn ranks(args: &Args) -> Result<Vec<Rank>, Error> {
    let engine = args.model_server_port.or(args.vllm_port).unwrap_or(ENGINE_PORT);
    Error::require(args.port > 0, "port", "expected a port from 1 to 65535")?;
    Error::require(args.data_parallel_size > 0, "data-parallel-size", "expected 1 or more")?;
    let rank = |index| Some(Rank { port: args.port.checked_add(index)?, engine: engine.checked_add(index)? });
    (0..args.data_parallel_size).map(rank).collect::<Option<_>>().ok_or_else(|| {
        let (count, port) = (args.data_parallel_size, args.port);
        let message = format!("{count} ranks from ports {port} and {engine} would need ports above 65535");
        Error::flag("data-parallel-size", message)
    })
}

fn allowed(args: &Args) -> Result<Option<Pool>, Error> {
    let pool = args.inference_pool.as_str();
    let parsed = match pool.split('/').collect::<Vec<_>>().as_slice() {
        [""] => None,
        [name] => Some(("default", *name)),
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Some((*namespace, *name)),
        _ => return Err(Error::flag("inference-pool", format!("`{pool}` is not NAMESPACE/NAME"))),
    };
    if !args.enable_ssrf_protection {
        return Ok(None);
    }
    if ![groups::POOL, groups::OLD_POOL].contains(&args.pool_group.as_str()) {
        let message = format!(
            "API group `{}` has no InferencePool; expected inference.networking.k8s.io or \
             inference.networking.x-k8s.io",
            args.pool_group
        );
        return Err(Error::Flag { flag: "pool-group", message });
    }
    let (namespace, name) = parsed.ok_or_else(|| {
        Error::flag("inference-pool", "--enable-ssrf-protection needs the pool: set NAMESPACE/NAME")
    })?;
    Ok(Some(Pool { group: args.pool_group.clone(), namespace: namespace.into(), name: name.into() }))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches};

    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let command = Args::augment_args(clap::Command::new("sidecar").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let args = Args::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Settings::try_from(args).map_err(|error| error.to_string())
    }

    #[test]
    fn what_kserve_passes_is_understood_with_tls_and_without() {
        let common = [
            "--port=8000",
            "--vllm-port=8001",
            "--kv-connector=nixlv2",
            "--enable-ssrf-protection=true",
            "--pool-group=inference.networking.x-k8s.io",
            "--inference-pool=ns/pool",
        ];
        let plain = settings(&[&common[..], &["--secure-proxy=false", "", "", ""]].concat()).unwrap();
        assert_eq!(plain.ranks, [Rank { port: 8000, engine: 8001 }]);
        assert_eq!(plain.serving, ServerTls::Plain);
        assert!(!plain.decoder.tls && !plain.prefiller.tls);
        let pool = plain.allowed.unwrap();
        assert_eq!((pool.namespace.as_str(), pool.name.as_str()), ("ns", "pool"));
        let tls =
            ["--secure-proxy=true", "--cert-path=/tls", "--enable-tls=decoder", "--enable-tls=prefiller"];
        let secure = settings(&[&common[..], &tls].concat()).unwrap();
        assert_eq!(secure.serving, ServerTls::Folder("/tls".into()));
        assert_eq!([secure.decoder, secure.prefiller], [Leg { tls: true, verify: true }; 2]);
    }

    #[test]
    fn connectors_and_modes_that_are_not_there_are_refused_by_name() {
        for (argument, named) in [
            ("--kv-connector=nope", "`nope`"),
            ("--ec-connector=x", "`x`"),
            ("--kv-connector=sglang,--decode-chunk-size=2", "decode-chunk-size"),
            ("--kv-connector=sglang,--enable-p2p-pull", "enable-p2p-pull"),
            ("--moriio-write-mode", "POD_IP"),
            ("--max-request-body-mib=0", "max-request-body-mib"),
            ("--moriio-dp-size=2", "moriio-dp-size"),
            ("--moriio-parallel-dispatch", "moriio-parallel-dispatch"),
        ] {
            let refused = settings(&argument.split(',').collect::<Vec<_>>()).unwrap_err();
            assert!(refused.contains(named), "{argument}: {refused}");
        }
    }

    #[test]
    fn pods_of_a_wide_engine_must_hold_all_ranks() {
        let write = ["--moriio-write-mode", "--moriio-local-pod-ip=10.0.0.7", "--moriio-dp-size=4"];
        let of = |more: &[&str]| settings(&[&write[..], more].concat());
        assert!(of(&["--moriio-remote-hosts=a,b"]).unwrap_err().contains("moriio-dp-size-local"));
        assert!(of(&["--moriio-remote-hosts=a,b", "--moriio-dp-size-local=1"]).is_err());
        assert!(of(&["--moriio-remote-hosts=a,b", "--moriio-dp-size-local=2"]).is_ok());
        assert!(of(&["--moriio-tp-size=0"]).unwrap_err().contains("moriio-tp-size"));
        assert!(of(&["--kv-connector=sglang"]).unwrap_err().contains("nixlv2"));
    }

    #[test]
    fn ports_must_exist() {
        assert!(settings(&["--port=0"]).is_err());
        assert!(settings(&["--port=65535", "--data-parallel-size=2"]).is_err());
        assert_eq!(settings(&[]).unwrap().ranks, [Rank { port: 8000, engine: 8200 }]);
    }

    #[test]
    fn traces_may_be_sent() {
        assert!(settings(&["--tracing"]).is_ok());
    }
}
