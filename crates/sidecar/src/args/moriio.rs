//! The flags of MoRI-IO, whose prefillers write caches into the memory of the decoder.

use std::time::Duration;

use clap::ArgAction;

use longboat_duration as duration;

use super::truth;

/// The flags; all of them need `--moriio-write-mode`.
#[derive(Debug, Clone, clap::Args)]
pub struct MoriioArgs {
    /// nixlv2: prefillers write caches into the decoder's memory instead of keeping them to be fetched.
    #[arg(long, action = ArgAction::Set, value_parser = truth, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub moriio_write_mode: bool,
    /// The address or name of this pod, to which prefillers write [default: the variable `POD_IP`].
    #[arg(long)]
    pub moriio_local_pod_ip: Option<String>,
    /// The port on which the decoder of rank 0 is told that a cache is written [default: 61005].
    #[arg(long)]
    pub moriio_decode_notify_port: Option<u16>,
    /// The port on which the decoder of rank 0 meets prefillers [default: 6301].
    #[arg(long)]
    pub moriio_decode_handshake_port: Option<u16>,
    /// Ask both engines at the same time; the decoder's answer waits for the prefiller's.
    #[arg(long, action = ArgAction::Set, value_parser = truth, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub moriio_parallel_dispatch: bool,
    /// How long the decoder waits for the prefiller then [default: 30s].
    #[arg(long, value_parser = duration::parse)]
    pub moriio_parallel_decode_wait_timeout: Option<Duration>,
    /// The port on which the prefiller of rank 0 meets decoders [default: 6301].
    #[arg(long)]
    pub moriio_prefill_handshake_port: Option<u16>,
    /// The port on which the prefiller of rank 0 is told that memory is ready [default: 61005].
    #[arg(long)]
    pub moriio_prefill_notify_port: Option<u16>,
    /// Tensor parallelism of the engines [default: 1].
    #[arg(long)]
    pub moriio_tp_size: Option<u32>,
    /// Data parallelism of the engines, over all of their pods [default: 1].
    #[arg(long)]
    pub moriio_dp_size: Option<u32>,
    /// Ranks of one pod, where the engines have several pods.
    #[arg(long)]
    pub moriio_dp_size_local: Option<u32>,
    /// Addresses or names of the prefiller's pods, where it has several; separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub moriio_remote_hosts: Vec<String>,
    /// The same of the decoder.
    #[arg(long, value_delimiter = ',')]
    pub moriio_decode_hosts: Vec<String>,
}
