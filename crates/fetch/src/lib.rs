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

/// `SRC_URI DEST_PATH`, as often as there is something to bring: a model and its adapters (contract 07 §1).
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where the model is, and the folder to put it into: `hf://…`, `s3://…`, `gs://…`, `https://…`, `pvc://…`,
    /// `file://…` or a path, each followed by its folder
    #[arg(value_names = ["SOURCE", "DESTINATION"], num_args = 2.., required = true)]
    pub pairs: Vec<String>,
    /// `skip`: fetch nothing and say so, because the engine reads no weights
    #[arg(long, env = SKIP_VARIABLE, hide = true)]
    pub mode: Option<String>,
}

/// Brings each source to its destination, one after the other.
pub async fn run(args: Args) -> Result<(), FetchError> {
    let (pairs, rest) = args.pairs.as_chunks::<2>();
    if let [source] = rest {
        return Err(FetchError::NoDestination { uri: source.clone() });
    }
    let skip = args.mode.as_deref() == Some("skip");
    for [source, destination] in pairs {
        if skip {
            tracing::info!(source, "No weights were fetched: the engine is a simulator and reads none.");
        } else {
            bring(source, destination.into()).await?;
        }
    }
    Ok(())
}

async fn bring(source: &str, destination: PathBuf) -> Result<(), FetchError> {
    let (scheme, path) =
        source.split_once("://").map_or((None, source), |(scheme, path)| (Some(scheme), path));
    match scheme {
        None | Some("file" | "pvc") => local::copy(PathBuf::from(path), destination).await,
        Some(scheme) => Err(FetchError::Unsupported { scheme: scheme.to_owned(), uri: source.to_owned() }),
    }
}
