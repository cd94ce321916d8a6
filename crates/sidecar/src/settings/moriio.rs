//! The settings of MoRI-IO, read from the flags.

use std::time::Duration;

use crate::{args::Args, error::Error};

/// vLLM's default ports.
const HANDSHAKE: u16 = 6301;
const NOTIFY: u16 = 61005;

/// How long a decoder waits for a cache by default.
const DEFAULT_CACHE_TIMEOUT: Duration = Duration::from_secs(30);

/// The mode in which prefillers write KV caches into the decoder's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moriio {
    pub(crate) prefill: Side,
    pub(crate) decode: Side,
    /// The address of this pod, to which prefillers write.
    pub(crate) local: String,
    pub(crate) tp_size: u32,
    pub(crate) dp_size: u32,
    /// The ranks per pod, if the engines have several pods.
    pub(crate) dp_size_local: Option<u32>,
    /// If set, the requests to both engines are sent at the same time, and the decoder waits this long for the prefiller.
    pub(crate) parallel: Option<Duration>,
}

/// The ports and the pods of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) handshake_port: u16,
    pub(crate) notify_port: u16,
    /// Its pods, if there are several.
    pub(crate) hosts: Vec<String>,
}

/// Checks the flags.
pub(super) fn of(args: &Args) -> Result<Option<Moriio>, Error> {
    let flags = &args.moriio;
    if !flags.moriio_write_mode {
        return match without_effect(args) {
            Some(flag) => Err(Error::flag(flag, "has no effect without --moriio-write-mode")),
            None => Ok(None),
        };
    }
    let is_nixl = matches!(args.kv_connector.as_str(), "nixlv2" | "nixl");
    Error::require(is_nixl, "moriio-write-mode", "needs --kv-connector=nixlv2")?;
    let local = flags.moriio_local_pod_ip.clone().unwrap_or_else(|| args.pod_ip.clone());
    let message =
        "prefill pods need an address to write to: set --moriio-local-pod-ip, or the variable POD_IP";
    Error::require(!local.is_empty(), "moriio-write-mode", message)?;
    let is_parallel = flags.moriio_parallel_dispatch;
    let (flag, message) =
        ("moriio-parallel-decode-wait-timeout", "has no effect without --moriio-parallel-dispatch");
    Error::require(is_parallel || flags.moriio_parallel_decode_wait_timeout.is_none(), flag, message)?;
    let message = "cannot be used with --moriio-parallel-dispatch";
    Error::require(!is_parallel || args.decode_chunk_size == 0, "decode-chunk-size", message)?;
    for (flag, size) in [
        ("moriio-tp-size", flags.moriio_tp_size),
        ("moriio-dp-size", flags.moriio_dp_size),
        ("moriio-dp-size-local", flags.moriio_dp_size_local),
    ] {
        Error::require(size != Some(0), flag, "expected 1 or more")?;
    }
    let dp_size = flags.moriio_dp_size.unwrap_or(1);
    for (flag, hosts) in [
        ("moriio-remote-hosts", &flags.moriio_remote_hosts),
        ("moriio-decode-hosts", &flags.moriio_decode_hosts),
    ] {
        pods(flag, hosts, dp_size, flags.moriio_dp_size_local)?;
    }
    let side = |handshake: Option<u16>, notify: Option<u16>, hosts: &[String]| Side {
        handshake_port: handshake.unwrap_or(HANDSHAKE),
        notify_port: notify.unwrap_or(NOTIFY),
        hosts: hosts.to_vec(),
    };
    Ok(Some(Moriio {
        prefill: side(
            flags.moriio_prefill_handshake_port,
            flags.moriio_prefill_notify_port,
            &flags.moriio_remote_hosts,
        ),
        decode: side(
            flags.moriio_decode_handshake_port,
            flags.moriio_decode_notify_port,
            &flags.moriio_decode_hosts,
        ),
        local,
        tp_size: flags.moriio_tp_size.unwrap_or(1),
        dp_size,
        dp_size_local: flags.moriio_dp_size_local,
        parallel: is_parallel
            .then(|| flags.moriio_parallel_decode_wait_timeout.unwrap_or(DEFAULT_CACHE_TIMEOUT)),
    }))
}

/// Returns a flag that is set although the mode is off.
fn without_effect(args: &Args) -> Option<&'static str> {
    let flags = &args.moriio;
    [
        ("moriio-local-pod-ip", flags.moriio_local_pod_ip.is_some()),
        ("moriio-decode-notify-port", flags.moriio_decode_notify_port.is_some()),
        ("moriio-decode-handshake-port", flags.moriio_decode_handshake_port.is_some()),
        ("moriio-parallel-dispatch", flags.moriio_parallel_dispatch),
        ("moriio-parallel-decode-wait-timeout", flags.moriio_parallel_decode_wait_timeout.is_some()),
        ("moriio-prefill-handshake-port", flags.moriio_prefill_handshake_port.is_some()),
        ("moriio-prefill-notify-port", flags.moriio_prefill_notify_port.is_some()),
        ("moriio-tp-size", flags.moriio_tp_size.is_some()),
        ("moriio-dp-size", flags.moriio_dp_size.is_some()),
        ("moriio-dp-size-local", flags.moriio_dp_size_local.is_some()),
        ("moriio-remote-hosts", !flags.moriio_remote_hosts.is_empty()),
        ("moriio-decode-hosts", !flags.moriio_decode_hosts.is_empty()),
    ]
    .into_iter()
    .find_map(|(flag, is_given)| is_given.then_some(flag))
}

/// Checks the pods of an engine. All pods must have the same number of ranks, because engines find the pod of a rank by
/// division.
fn pods(flag: &'static str, hosts: &[String], dp_size: u32, local: Option<u32>) -> Result<(), Error> {
    if hosts.len() <= 1 {
        return Ok(());
    }
    let count = hosts.len();
    let Some(local) = local else {
        let message = format!("{count} pods need --moriio-dp-size-local, the number of ranks of one pod");
        return Err(Error::flag(flag, message));
    };
    let fits = u64::from(local).checked_mul(count as u64) == Some(u64::from(dp_size));
    let message =
        format!("{count} pods with --moriio-dp-size-local={local} are not --moriio-dp-size={dp_size} ranks");
    Error::require(fits, flag, &message)
}
