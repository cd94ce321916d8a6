//! The connector settings, read from the flags.

use crate::{
    args::Args,
    connectors::{encoder::Encoder, p2p},
    error::Error,
};

/// A connector with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// `nixlv2`.
    Nixl,
    /// `shared-storage`.
    SharedStorage,
    /// `sglang`.
    Sglang {
        /// The port on which prefillers wait for decoders.
        bootstrap_port: u16,
    },
    /// `mooncake`.
    Mooncake {
        /// The port on which prefillers list their engines.
        bootstrap_port: u16,
    },
    /// `offloading`.
    Offloading {
        /// The ports on which engines serve their caches.
        ports: p2p::Ports,
    },
}

/// Returns the configured connector.
pub(super) fn of(args: &Args) -> Result<Transfer, Error> {
    match args.kv_connector.as_str() {
        // `nixl` is the name of the engine's own connector. Older templates use it.
        "nixlv2" | "nixl" => Ok(Transfer::Nixl),
        "shared-storage" => Ok(Transfer::SharedStorage),
        "sglang" => Ok(Transfer::Sglang { bootstrap_port: args.sglang_bootstrap_port }),
        "mooncake" => Ok(Transfer::Mooncake { bootstrap_port: args.mooncake_bootstrap_port }),
        "offloading" => Ok(Transfer::Offloading { ports: ports(args) }),
        other => {
            let known = "nixlv2, shared-storage, sglang, mooncake or offloading";
            Err(Error::flag("kv-connector", format!("unknown connector `{other}`; expected {known}")))
        }
    }
}

/// Returns the configured encoder stage.
pub(super) fn encoder(args: &Args) -> Result<Option<Encoder>, Error> {
    match args.ec_connector.as_str() {
        "" => Ok(None),
        "ec-example" => Ok(Some(Encoder::Example)),
        "ec-nixl" => Ok(Some(Encoder::Nixl)),
        other => {
            let message = format!("unknown encoder connector `{other}`; expected ec-example or ec-nixl");
            Err(Error::flag("ec-connector", message))
        }
    }
}

/// Returns the tokens per chunk. `None` if chunks are off.
pub(super) fn chunk(args: &Args) -> Result<Option<u64>, Error> {
    if args.decode_chunk_size == 0 {
        return Ok(None);
    }
    let is_nixl = matches!(args.kv_connector.as_str(), "nixlv2" | "nixl");
    let message = format!("needs --kv-connector=nixlv2, not `{}`", args.kv_connector);
    Error::require(is_nixl, "decode-chunk-size", &message)?;
    Ok(Some(args.decode_chunk_size.into()))
}

/// Returns the ports for pulling blocks from other engines. `None` if this is off.
pub(super) fn pull(args: &Args, transfer: &Transfer) -> Result<Option<p2p::Ports>, Error> {
    match transfer {
        Transfer::Offloading { ports } => Ok(Some(*ports)),
        Transfer::Nixl => Ok(args.enable_p2p_pull.then(|| ports(args))),
        _ if args.enable_p2p_pull => Err(Error::flag(
            "enable-p2p-pull",
            format!("needs --kv-connector=nixlv2, not `{}`", args.kv_connector),
        )),
        _ => Ok(None),
    }
}

fn ports(args: &Args) -> p2p::Ports {
    p2p::Ports { base: args.p2p_connector_port, first_listener: args.port, ranks: args.data_parallel_size }
}
