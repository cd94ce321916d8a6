//! Model download into a folder: the storage initializer (contract 07).
//!
//! What is here is the frame: the command line, the dispatch on the URI's scheme, paths on this machine, and the word
//! of a node whose engine needs no weights. Remote sources have an issue of their own and are refused by name.

mod error;
mod local;

use std::path::PathBuf;

pub use error::FetchError;

/// Set to `skip` by a node whose engine is the simulator.
pub const SKIP_VARIABLE: &str = "LONGBOAT_FETCH";

/// `SRC_URI DEST_PATH`, as the reference takes them (contract 07 §1).
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where the model is: `hf://…`, `s3://…`, `gs://…`, `https://…`, `pvc://…`, `file://…` or a path
    pub source: String,
    /// The folder to put it into
    pub destination: PathBuf,
    /// `skip`: fetch nothing and say so, because the engine reads no weights
    #[arg(long, env = SKIP_VARIABLE, hide = true)]
    pub mode: Option<String>,
}

/// Brings the model to the destination.
pub async fn run(args: Args) -> Result<(), FetchError> {
    if args.mode.as_deref() == Some("skip") {
        tracing::info!(
            source = args.source,
            "No weights were fetched: the engine is a simulator and reads none.",
        );
        return Ok(());
    }
    let scheme = args.source.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        None | Some("file" | "pvc") => {
            let path = args.source.split_once("://").map_or(args.source.as_str(), |(_, path)| path);
            local::copy(PathBuf::from(path), args.destination).await
        }
        Some(scheme) => Err(FetchError::Unsupported { scheme: scheme.to_owned(), uri: args.source }),
    }
}
