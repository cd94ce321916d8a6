//! How prefill results reach the decoder, as the flags say.

use crate::{args::Args, connectors::p2p, error::Error};

/// A connector and what it has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// `nixlv2`.
    Nixl,
    /// `shared-storage`.
    SharedStorage,
    /// `sglang`.
    Sglang {
        /// Where prefillers wait for decoders.
        bootstrap_port: u16,
    },
    /// `mooncake`.
    Mooncake {
        /// Where prefillers name their engines.
        bootstrap_port: u16,
    },
    /// `offloading`.
    Offloading {
        /// Where engines give their caches away.
        ports: p2p::Ports,
    },
}

/// The connector that the flags choose.
pub(super) fn of(args: &Args) -> Result<Transfer, Error> {
    let refused = |flag, message: String| Err(Error::Flag { flag, message });
    if !args.ec_connector.is_empty() {
        let message = format!(
            "the encoder connector `{}` is not supported: leave the flag out, and encoders run in the engines",
            args.ec_connector
        );
        return refused("ec-connector", message);
    }
    if args.decode_chunk_size > 0 {
        let message = "decoding in chunks is not supported: leave the flag out, or give 0".into();
        return refused("decode-chunk-size", message);
    }
    match args.kv_connector.as_str() {
        // `nixl` is the name of the connector of the engine, which older templates give.
        "nixlv2" | "nixl" => Ok(Transfer::Nixl),
        "shared-storage" => Ok(Transfer::SharedStorage),
        "sglang" => Ok(Transfer::Sglang { bootstrap_port: args.sglang_bootstrap_port }),
        "mooncake" => Ok(Transfer::Mooncake { bootstrap_port: args.mooncake_bootstrap_port }),
        "offloading" => Ok(Transfer::Offloading { ports: ports(args) }),
        other => refused(
            "kv-connector",
            format!(
                "no connector is called `{other}`; expected nixlv2, shared-storage, sglang, mooncake or offloading"
            ),
        ),
    }
}

/// Where engines pull blocks from one another.
pub(super) fn pull(args: &Args, transfer: &Transfer) -> Result<Option<p2p::Ports>, Error> {
    match transfer {
        Transfer::Offloading { ports } => Ok(Some(*ports)),
        Transfer::Nixl => Ok(args.enable_p2p_pull.then(|| ports(args))),
        _ if args.enable_p2p_pull => Err(Error::Flag {
            flag: "enable-p2p-pull",
            message: format!("needs --kv-connector=nixlv2, not `{}`", args.kv_connector),
        }),
        _ => Ok(None),
    }
}

fn ports(args: &Args) -> p2p::Ports {
    p2p::Ports { base: args.p2p_connector_port, first_listener: args.port, ranks: args.data_parallel_size }
}
