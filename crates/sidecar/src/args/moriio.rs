//! The flags of MoRI-IO, whose prefillers write caches into the memory of the decoder.

use std::time::Duration;

use clap::ArgAction;

use longboat_quantity::duration;

use super::parse_go_bool;

/// The flags. All others need `--moriio-write-mode`.
#[derive(Debug, Clone, clap::Args)]
pub struct MoriioArgs {
    /// nixlv2: let prefillers write KV caches into the decoder's memory, instead of keeping them for the decoder to fetch.
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub moriio_write_mode: bool,
    /// Address or hostname of this pod, to which prefillers write [default: $POD_IP].
    #[arg(long)]
    pub moriio_local_pod_ip: Option<String>,
    /// Port on which the decoder of rank 0 is notified of a written KV cache [default: 61005].
    #[arg(long)]
    pub moriio_decode_notify_port: Option<u16>,
    /// Handshake port of the decoder of rank 0 for prefillers [default: 6301].
    #[arg(long)]
    pub moriio_decode_handshake_port: Option<u16>,
    /// Send requests to the prefiller and the decoder at the same time; the decoder's response waits for the prefiller's.
    #[arg(long, action = ArgAction::Set, value_parser = parse_go_bool, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub moriio_parallel_dispatch: bool,
    /// Time that the decoder waits for the prefiller with --moriio-parallel-dispatch [default: 30s].
    #[arg(long, value_parser = duration::parse)]
    pub moriio_parallel_decode_wait_timeout: Option<Duration>,
    /// Handshake port of the prefiller of rank 0 for decoders [default: 6301].
    #[arg(long)]
    pub moriio_prefill_handshake_port: Option<u16>,
    /// Port on which the prefiller of rank 0 is notified that memory is ready [default: 61005].
    #[arg(long)]
    pub moriio_prefill_notify_port: Option<u16>,
    /// Tensor parallel size of the engines [default: 1].
    #[arg(long)]
    pub moriio_tp_size: Option<u32>,
    /// Data parallel size of the engines, over all their pods [default: 1].
    #[arg(long)]
    pub moriio_dp_size: Option<u32>,
    /// Number of ranks in one pod, if the engines have several pods.
    #[arg(long)]
    pub moriio_dp_size_local: Option<u32>,
    /// Addresses or hostnames of the prefiller's pods, if there are several; separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub moriio_remote_hosts: Vec<String>,
    /// Addresses or hostnames of the decoder's pods, if there are several; separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub moriio_decode_hosts: Vec<String>,
}
